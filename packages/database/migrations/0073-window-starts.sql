-- When windows of further limits opened that open on first use. A counter's windows never overlap: the next one opens once the last is over.
CREATE TABLE window_starts (
  -- pol_….lim_…, whatever amounts the limit has: they share its windows.
  limit_id text COLLATE "C" NOT NULL,
  counter_version integer NOT NULL,
  subject text COLLATE "C" NOT NULL,
  started_at timestamptz NOT NULL,
  PRIMARY KEY (limit_id, counter_version, subject, started_at)
);
CREATE INDEX window_starts_by_time ON window_starts (started_at);
