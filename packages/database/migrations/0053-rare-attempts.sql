-- Leads to the few attempts that failed or were estimated. Months without rows get it now, later ones when they are made. An index of
-- the others would hold up metering while it is built: docs/operations.md has the statement that doesn't.
CREATE INDEX usage_events_by_failure ON ONLY usage_events (outcome, admitted_at, event_id) WHERE outcome <> 'success';
CREATE INDEX usage_events_estimated ON ONLY usage_events (admitted_at, event_id) WHERE estimated;
DO $$
DECLARE
  month text;
  has_rows boolean;
  index text;
BEGIN
  FOR month IN SELECT relname FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'usage_events'::regclass
  LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %I)', month) INTO has_rows;
    CONTINUE WHEN has_rows;
    index := month || '_by_failure';
    EXECUTE format('CREATE INDEX %I ON %I (outcome, admitted_at, event_id) WHERE outcome <> ''success''', index, month);
    EXECUTE format('ALTER INDEX usage_events_by_failure ATTACH PARTITION %I', index);
    index := month || '_estimated';
    EXECUTE format('CREATE INDEX %I ON %I (admitted_at, event_id) WHERE estimated', index, month);
    EXECUTE format('ALTER INDEX usage_events_estimated ATTACH PARTITION %I', index);
  END LOOP;
END $$;
