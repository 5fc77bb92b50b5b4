-- Callers may show a token of an OIDC issuer instead of a key.
ALTER TABLE audit_log
  ADD COLUMN actor_oidc_issuer text,
  ADD COLUMN actor_oidc_subject text,
  ADD CHECK ((actor_oidc_issuer IS NULL) = (actor_oidc_subject IS NULL)),
  ADD CHECK (actor_key_id IS NULL OR actor_oidc_issuer IS NULL);

-- Whose answer it is: a key's id, or what stands for an issuer and its subject. The previous release runs on.
ALTER TABLE idempotent_answers DROP CONSTRAINT idempotent_answers_key_id_fkey;
