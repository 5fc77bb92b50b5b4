-- Days of the ledger that were moved out of Postgres into files (docs/archive.md). For Postgres they are dropped: what they counted is
-- in opening balances, and `dropped_before` is where its rows begin.
ALTER TABLE ledger_floor
  -- The archive has all rows from here to `dropped_before`. Null: there is no archive.
  ADD COLUMN archive_from timestamptz,
  -- No row gets an id before this any more: these days are being written, or are archived.
  ADD COLUMN archived_before timestamptz;

-- By the time in ids, as partitions. A day without rows has none here.
CREATE TABLE ledger_archive_days (
  day timestamptz PRIMARY KEY,
  rows bigint NOT NULL,
  cost_nano_usd numeric NOT NULL,
  -- In how many counters and windows its rows count, and the digest of how much in each; `_counters.tsv` beside the files lists them.
  counters bigint NOT NULL,
  counters_sha256 text NOT NULL,
  archived_at timestamptz NOT NULL
);
CREATE TABLE ledger_archive_files (
  name text PRIMARY KEY,
  day timestamptz NOT NULL REFERENCES ledger_archive_days,
  rows bigint NOT NULL,
  bytes bigint NOT NULL,
  sha256 text NOT NULL,
  first_admitted_at timestamptz NOT NULL,
  last_admitted_at timestamptz NOT NULL
);
CREATE INDEX ledger_archive_files_by_day ON ledger_archive_files (day);
CREATE INDEX ledger_archive_files_by_admission ON ledger_archive_files (last_admitted_at, first_admitted_at);

-- How the last run of the archiver went, for operators; one row once there was a run.
CREATE TABLE ledger_archive_state (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  ran_at timestamptz NOT NULL,
  -- Days that are old enough, and are in Postgres.
  due_days integer NOT NULL,
  -- Why it failed, and since when it has; null: it did not.
  problem text,
  failing_since timestamptz
);
