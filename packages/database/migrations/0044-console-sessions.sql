-- Sessions of people in the console. The cookie alone holds the credential, sealed: a row says only how long it counts.
CREATE TABLE console_sessions (
  id_sha256 bytea PRIMARY KEY,
  principal_id text NOT NULL,
  created_at timestamptz NOT NULL,
  -- Noted once a minute at most.
  last_seen_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE INDEX console_sessions_by_end ON console_sessions (expires_at);
