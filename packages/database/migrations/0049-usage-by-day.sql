-- Sums of whole days (UTC), so that a month is read from a twentieth of the rows.
CREATE TABLE usage_by_day (
  day timestamptz NOT NULL,
  -- As in usage_by_hour.
  group_sha256 bytea NOT NULL,
  shard smallint NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  policy_id text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  "user" text,
  team text,
  project text,
  env text,
  workload_type text,
  namespace text,
  workload text,
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

-- From this day on, every change of the hours was also one of the days; before it, the hours are read. So nothing waits until what there
-- is was added up.
CREATE TABLE usage_by_day_since (since timestamptz NOT NULL);

-- What changes the hours alone is an earlier release, or a person. Its days are read from the hours, and two more: clocks differ.
CREATE FUNCTION notice_hours_without_days() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  from_day timestamptz := date_trunc('day', now(), 'UTC') + interval '48 hours';
BEGIN
  IF current_setting('weighbridge.keeps_days', true) IS DISTINCT FROM 'on' THEN
    UPDATE usage_by_day_since SET since = from_day WHERE since < from_day;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER notice_hours_without_days AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON usage_by_hour
  FOR EACH STATEMENT EXECUTE FUNCTION notice_hours_without_days();

-- The trigger holds a lock: no hour is written between this and it.
INSERT INTO usage_by_day_since
SELECT CASE WHEN EXISTS (SELECT FROM usage_by_hour) THEN date_trunc('day', now(), 'UTC') + interval '48 hours' ELSE '1970-01-01Z' END;

-- A query that names it may use several cores.
ALTER FUNCTION uuid_from(timestamptz) PARALLEL SAFE;
