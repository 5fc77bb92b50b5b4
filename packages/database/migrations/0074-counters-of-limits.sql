-- When an event of the counter was settled last. Null: not since this column exists.
ALTER TABLE spend_buckets ADD COLUMN last_used_at timestamptz;

-- Counters of further limits are listed by what they spent, a million of them too. An index by the amount would be written for each
-- event. One by its class is written when the amount has grown by two thirds: a class ends at a power of the square root of e.
CREATE FUNCTION spent_class(nano_usd bigint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT floor(ln(greatest(nano_usd, 1)::float8) * 2)::smallint $$;

-- Null: of a policy's own limit, whose counters are fewer and are written more often.
ALTER TABLE spend_buckets ADD COLUMN spent_class smallint;

CREATE FUNCTION set_spent_class() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.spent_class := spent_class(NEW.spent_nano_usd);
  RETURN NEW;
END $$;
CREATE TRIGGER spend_buckets_class BEFORE INSERT OR UPDATE ON spend_buckets FOR EACH ROW
  WHEN (strpos(NEW.policy_id, '.') > 0 AND NEW.spent_class IS DISTINCT FROM spent_class(NEW.spent_nano_usd))
  EXECUTE FUNCTION set_spent_class();
CREATE INDEX spend_buckets_by_class ON spend_buckets (policy_id, counter_version, window_start, spent_class)
  WHERE spent_class IS NOT NULL;
-- Those that were counted before. The trigger does it.
UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd WHERE strpos(policy_id, '.') > 0;

-- Counters of further limits that may have reached a threshold without usage that metering recorded: it looks at them within a minute,
-- and not at all others.
CREATE TABLE thresholds_due (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bucket_key text NOT NULL
);
