-- What the account of a connector may get in any 60 seconds, over all proxies; null: not limited.
ALTER TABLE connectors
  ADD COLUMN requests_per_minute integer CHECK (requests_per_minute > 0),
  ADD COLUMN tokens_per_minute bigint CHECK (tokens_per_minute > 0);

-- How long a request waits for an account that has nothing left, and in what order: a higher priority first.
ALTER TABLE policies
  ADD COLUMN queue_ms integer NOT NULL DEFAULT 0 CHECK (queue_ms >= 0),
  ADD COLUMN priority integer NOT NULL DEFAULT 0 CHECK (priority BETWEEN 0 AND 9);

-- What an account was granted lately, and what waits for it: an `AccountWindow`. Worth no write-ahead log, as `rate_minutes`.
CREATE UNLOGGED TABLE account_windows (
  connector_id text PRIMARY KEY REFERENCES connectors (id) ON DELETE CASCADE,
  state jsonb NOT NULL
);
