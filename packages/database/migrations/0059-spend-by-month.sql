-- What the ended windows of a counter spent, by the UTC month in which they started. A window that is folded has no row in
-- spend_buckets: its spend was added here in the transaction that deleted the row (docs/adr/0084).
CREATE TABLE spend_by_month (
  policy_id text NOT NULL,
  counter_version integer NOT NULL,
  subject text NOT NULL,
  month timestamptz NOT NULL,
  -- The start of the latest folded window. A row in spend_buckets up to here is what came late, or was not folded yet.
  folded_to timestamptz NOT NULL,
  spent_nano_usd bigint NOT NULL,
  opening_nano_usd bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (policy_id, counter_version, subject, month)
);
