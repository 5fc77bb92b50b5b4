-- What the nightly comparison found on days that it need not read again. A day here is that of ids for the rows and buckets (as the
-- partitions are), and that of admission for the sums by hour and day.
CREATE TABLE ledger_days (
  day timestamptz PRIMARY KEY,
  -- The ledger's rows of the day.
  events bigint NOT NULL,
  cost_nano_usd numeric NOT NULL,
  verified_at timestamptz NOT NULL,
  -- Which transactions' rows it read, for whoever looks for a difference.
  snapshot text NOT NULL
);
-- What these rows count in each bucket.
CREATE TABLE ledger_day_buckets (
  day timestamptz NOT NULL,
  bucket_key text NOT NULL,
  nano_usd numeric NOT NULL,
  PRIMARY KEY (day, bucket_key)
);
-- Days that are over and were changed since: by late usage, corrections, releases from quarantine, a rebuild. Only inserted, so that
-- writers never wait for each other; the comparison deletes what it has seen.
CREATE TABLE ledger_day_changes (day timestamptz NOT NULL);
CREATE INDEX ledger_day_changes_by_day ON ledger_day_changes (day);

-- When the sums were last changed by someone who does not record which days: an earlier release, or a person. To the minute, so that
-- its writers seldom wait for each other. No day that was verified before, or within an hour after, is trusted.
ALTER TABLE usage_by_day_since ADD COLUMN unannounced_at timestamptz NOT NULL DEFAULT '1970-01-01Z';
CREATE FUNCTION notice_unannounced_sums() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('weighbridge.keeps_totals', true) IS DISTINCT FROM 'on' THEN
    UPDATE usage_by_day_since SET unannounced_at = clock_timestamp()
      WHERE unannounced_at < clock_timestamp() - interval '1 minute';
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER notice_unannounced_sums AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON usage_by_hour
  FOR EACH STATEMENT EXECUTE FUNCTION notice_unannounced_sums();
CREATE TRIGGER notice_unannounced_sums AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON usage_by_day
  FOR EACH STATEMENT EXECUTE FUNCTION notice_unannounced_sums();
CREATE TRIGGER notice_unannounced_sums AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON usage_totals_by_hour
  FOR EACH STATEMENT EXECUTE FUNCTION notice_unannounced_sums();
CREATE TRIGGER notice_unannounced_sums AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON usage_totals_by_day
  FOR EACH STATEMENT EXECUTE FUNCTION notice_unannounced_sums();
