-- Responses that a vendor returned before it finished them. Their attempts are charged a reservation until they are settled.
ALTER TABLE stored_responses
  -- The attempt's event, which the ledger may not have yet. Null: the response was finished when it was recorded.
  ADD COLUMN event_id uuid,
  ADD COLUMN model text,
  -- The spool of the proxy that polls it.
  ADD COLUMN producer_id uuid,
  ADD COLUMN settled_at timestamptz,
  ADD CHECK (num_nulls(event_id, model, producer_id) IN (0, 3)),
  ADD CHECK (settled_at IS NULL OR event_id IS NOT NULL);
CREATE INDEX stored_responses_unsettled ON stored_responses (producer_id, created_at)
  WHERE event_id IS NOT NULL AND settled_at IS NULL;
