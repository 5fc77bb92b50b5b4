-- The further limits of a policy: a list, each with its id, what it counts, its amount in nano-USD and its version.
ALTER TABLE policies ADD COLUMN limits jsonb NOT NULL DEFAULT '[]';

-- How many counters of values a key has opened in a window of a further limit. Its row is locked while it opens more.
CREATE TABLE opened_counters (
  -- As in bucket keys: pol_….lim_…
  limit_id text COLLATE "C" NOT NULL,
  counter_version integer NOT NULL,
  window_start timestamptz NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  opened integer NOT NULL,
  PRIMARY KEY (limit_id, counter_version, window_start, key_id)
) WITH (fillfactor = 70);
