-- Sums by hour and day (UTC) without the values that callers choose, so that a report without them reads as many rows as there are keys
-- and models. The digest is as in usage_by_hour, of a group without such values.
CREATE TABLE usage_totals_by_hour (
  hour timestamptz NOT NULL,
  group_sha256 bytea NOT NULL,
  shard smallint NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  policy_id text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  team_id text,
  attempts bigint NOT NULL,
  requests bigint NOT NULL,
  model_requests bigint NOT NULL,
  estimated bigint NOT NULL,
  errors bigint NOT NULL,
  input_tokens bigint NOT NULL,
  cache_read_tokens bigint NOT NULL,
  cache_write_tokens bigint NOT NULL,
  cache_write_1h_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nano_usd bigint NOT NULL,
  PRIMARY KEY (hour, group_sha256, shard)
) WITH (fillfactor = 80);
CREATE TABLE usage_totals_by_day (
  day timestamptz NOT NULL,
  group_sha256 bytea NOT NULL,
  shard smallint NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  policy_id text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  team_id text,
  attempts bigint NOT NULL,
  requests bigint NOT NULL,
  model_requests bigint NOT NULL,
  estimated bigint NOT NULL,
  errors bigint NOT NULL,
  input_tokens bigint NOT NULL,
  cache_read_tokens bigint NOT NULL,
  cache_write_tokens bigint NOT NULL,
  cache_write_1h_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nano_usd bigint NOT NULL,
  PRIMARY KEY (day, group_sha256, shard)
) WITH (fillfactor = 80);

-- How many combinations of callers' values a key has sums of its own for on a day, and what of further ones counts under `(other)`:
-- 0 nothing yet, 1 their users, 2 all their values. It never goes down.
CREATE TABLE usage_attribution_days (
  day timestamptz NOT NULL,
  key_id text NOT NULL,
  combinations integer NOT NULL DEFAULT 0,
  folding smallint NOT NULL DEFAULT 0 CHECK (folding BETWEEN 0 AND 2),
  PRIMARY KEY (day, key_id)
) WITH (fillfactor = 70);
-- These combinations. What is not here counts by `folding` alone, so the ledger's rows say at any time what the sums must be.
CREATE TABLE usage_attributions (
  day timestamptz NOT NULL,
  key_id text NOT NULL,
  -- SHA-256 of the values, each with its length before it.
  attribution_sha256 bytea NOT NULL,
  PRIMARY KEY (day, key_id, attribution_sha256)
);

-- From this day on, every change of the hours was also one of the totals; before it, totals are read from the hours.
ALTER TABLE usage_by_day_since ADD COLUMN totals_since timestamptz NOT NULL DEFAULT '1970-01-01Z';

-- As before (0049). An earlier release that changes the hours announces the days at most, never the totals.
CREATE OR REPLACE FUNCTION notice_hours_without_days() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  from_day timestamptz := date_trunc('day', now(), 'UTC') + interval '48 hours';
BEGIN
  IF current_setting('weighbridge.keeps_days', true) IS DISTINCT FROM 'on' THEN
    UPDATE usage_by_day_since SET since = from_day WHERE since < from_day;
  END IF;
  IF current_setting('weighbridge.keeps_totals', true) IS DISTINCT FROM 'on' THEN
    UPDATE usage_by_day_since SET totals_since = from_day WHERE totals_since < from_day;
  END IF;
  RETURN NULL;
END $$;

-- Whoever wrote hours by the old function is done, and later ones wait.
LOCK TABLE usage_by_hour IN SHARE ROW EXCLUSIVE MODE;
UPDATE usage_by_day_since SET totals_since = date_trunc('day', now(), 'UTC') + interval '48 hours'
  WHERE EXISTS (SELECT FROM usage_by_hour);

CREATE INDEX usage_totals_by_day_of_key ON usage_totals_by_day (key_id, day);
CREATE INDEX usage_totals_by_day_of_principal ON usage_totals_by_day (principal_id, day);
-- Large tables get them later: building an index holds up metering. docs/operations.md has the statements that don't.
DO $$
BEGIN
  IF pg_table_size('usage_by_day') < 256 * 1024 * 1024 THEN
    CREATE INDEX usage_by_day_of_key ON usage_by_day (key_id, day);
    CREATE INDEX usage_by_day_of_principal ON usage_by_day (principal_id, day);
    CREATE INDEX usage_by_day_folded ON usage_by_day (day)
      WHERE '(other)' = ANY (ARRAY["user", team, project, env]);
  END IF;
  IF pg_table_size('usage_by_hour') < 256 * 1024 * 1024 THEN
    CREATE INDEX usage_by_hour_of_key ON usage_by_hour (key_id, hour);
    CREATE INDEX usage_by_hour_of_principal ON usage_by_hour (principal_id, hour);
    CREATE INDEX usage_by_hour_folded ON usage_by_hour (hour)
      WHERE '(other)' = ANY (ARRAY["user", team, project, env]);
  END IF;
END $$;
