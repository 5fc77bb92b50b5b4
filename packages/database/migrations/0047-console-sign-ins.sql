-- Answers of the OIDC issuer to sign-ins to the console: each is taken once.
CREATE TABLE console_sign_ins (
  state_sha256 bytea PRIMARY KEY,
  expires_at timestamptz NOT NULL
);
CREATE INDEX console_sign_ins_by_end ON console_sign_ins (expires_at);
-- The ID token of a session, to sign out at the issuer too. It is sealed: only who has the session's cookie can open it.
ALTER TABLE console_sessions ADD COLUMN id_token_sealed bytea;
