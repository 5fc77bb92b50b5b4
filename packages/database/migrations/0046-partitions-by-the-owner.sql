-- Metering creates and drops the months of the ledger, while the apps' role may not change the schema (docs/operations.md):
-- both functions run with the rights of the tables' owner, and only who was granted them may call them.
CREATE FUNCTION drop_usage_partition(at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  month timestamptz := date_trunc('month', at, 'UTC');
  after timestamptz := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
  name text := 'usage_events_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
  IF NOT EXISTS (SELECT FROM ledger_floor WHERE dropped_before >= after) THEN
    RAISE EXCEPTION '% is within the ledger''s retention', name;
  END IF;
  EXECUTE format('DROP TABLE %I', name);
END $$;
REVOKE ALL ON FUNCTION create_usage_partition(timestamptz), drop_usage_partition(timestamptz) FROM PUBLIC;
-- The search path is fixed, with the caller's temporary tables last: nothing that it makes can stand for a table of the ledger.
DO $$
BEGIN
  EXECUTE format('ALTER FUNCTION create_usage_partition(timestamptz) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
  EXECUTE format('ALTER FUNCTION drop_usage_partition(timestamptz) SECURITY DEFINER SET search_path = %I, pg_temp', current_schema());
END $$;
