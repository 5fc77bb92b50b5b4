-- What spend and requests are read by.

-- The API shows milliseconds, and page tokens carry what it shows: so the ledger keeps no finer times.
ALTER TABLE usage_events
  ALTER COLUMN admitted_at TYPE timestamptz(3),
  ALTER COLUMN settled_at TYPE timestamptz(3),
  ADD COLUMN provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  -- The governing policy: the first whose counter the attempt was admitted on.
  ADD COLUMN policy_id text GENERATED ALWAYS AS (buckets -> 0 ->> 'policy_id') STORED;

-- Requests are listed newest first; the id settles which of two of the same millisecond comes first.
DROP INDEX usage_events_by_admission, usage_events_by_key, usage_events_by_principal;
CREATE INDEX usage_events_by_admission ON usage_events (admitted_at, event_id);
CREATE INDEX usage_events_by_key ON usage_events (key_id, admitted_at, event_id);
CREATE INDEX usage_events_by_principal ON usage_events (principal_id, admitted_at, event_id);
CREATE INDEX usage_events_by_session ON usage_events ((attribution ->> 'session_sha256'), admitted_at, event_id)
  WHERE attribution ->> 'session_sha256' IS NOT NULL;
