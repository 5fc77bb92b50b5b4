-- What batches spent of counters that all events of a policy share. Batches append it, and metering merges it into spend_buckets and
-- budget_leases several times a second, so that they don't wait for each other's rows (docs/adr/0087).
CREATE TABLE appended_spend (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  bucket_key text NOT NULL,
  -- Who spent it: merging settles its lease.
  producer_id uuid NOT NULL,
  epoch uuid NOT NULL,
  nano_usd bigint NOT NULL,
  -- When the earliest of the events was settled: until it is merged, counters are known up to there.
  settled_from timestamptz NOT NULL,
  appended_at timestamptz NOT NULL DEFAULT statement_timestamp()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX appended_spend_by_bucket ON appended_spend (bucket_key, id);

-- All that was or will be appended up to this id is merged. While a backup runs, merged rows can't be cleaned up: readers skip them.
CREATE TABLE merged_spend (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  up_to_id bigint NOT NULL DEFAULT 0
);
INSERT INTO merged_spend DEFAULT VALUES;
