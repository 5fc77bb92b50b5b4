-- Usage of archived days that arrived late. Its row in the ledger has an id of the day on which it came, so that no archived day
-- changes; this is where its own id is known.
CREATE TABLE late_usage (
  event_id uuid PRIMARY KEY,
  recorded_as uuid NOT NULL
);
