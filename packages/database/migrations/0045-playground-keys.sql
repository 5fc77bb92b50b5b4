-- Keys that a page made for a few minutes, and that end with the session that made them.
CREATE TABLE playground_keys (
  key_id text PRIMARY KEY REFERENCES keys,
  principal_id text NOT NULL,
  -- Null: its maker had no session.
  session_sha256 bytea,
  created_at timestamptz NOT NULL
);
CREATE INDEX playground_keys_by_principal ON playground_keys (principal_id, created_at);
CREATE INDEX playground_keys_by_session ON playground_keys (session_sha256);
