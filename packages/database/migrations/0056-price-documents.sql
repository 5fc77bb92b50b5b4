-- A price is one document (docs/adr/0079). Earlier releases read and write the columns beside it, so a trigger keeps both the same.

-- What a document has of these members: `<class>_nano_usd` as decimal strings, `tiers`, `variants`, `tool_prices`. A null is unknown.
CREATE FUNCTION price_document(members jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(key, CASE jsonb_typeof(value) WHEN 'number' THEN to_jsonb(value #>> '{}') ELSE value END)
  FROM jsonb_each(members) WHERE key LIKE '%\_nano\_usd' OR key IN ('tiers', 'variants', 'tool_prices')
$$;

ALTER TABLE model_prices
  ADD COLUMN price jsonb,
  -- NOT VALID: no row of before has one, so none is read for it. 512 KiB is more than the largest price that the API takes.
  ADD CONSTRAINT model_prices_price_check
    CHECK (jsonb_typeof(price) = 'object' AND octet_length(price::text) <= 524288) NOT VALID;
ALTER TABLE connector_prices
  ADD COLUMN price jsonb,
  ADD CONSTRAINT connector_prices_price_check
    CHECK (jsonb_typeof(price) = 'object' AND octet_length(price::text) <= 524288) NOT VALID;

-- Versions in force, which every snapshot reads, are as many as models. The rest stays as it is, however many: readers use the function.
UPDATE model_prices SET price = jsonb_strip_nulls(price_document(to_jsonb(model_prices)))
  WHERE NOT ended AND (model_id, version) IN (SELECT model_id, max(version) FROM model_prices GROUP BY model_id);
UPDATE connector_prices SET price = jsonb_strip_nulls(price_document(to_jsonb(connector_prices)))
  WHERE NOT ended AND (connector_id, model_id, version) IN (
    SELECT connector_id, model_id, max(version) FROM connector_prices GROUP BY connector_id, model_id);

CREATE FUNCTION sync_price_columns() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  columns jsonb := price_document(to_jsonb(NEW));
  no_rates jsonb := (SELECT jsonb_object_agg(key, NULL::jsonb) FROM jsonb_object_keys(columns) AS key);
BEGIN
  IF NEW.ended THEN
    NEW.price := NULL;
  ELSIF NEW.price IS NULL OR (TG_OP = 'UPDATE' AND NEW.price IS NOT DISTINCT FROM OLD.price) THEN
    -- An earlier release wrote the columns. What a later one has in the document beyond them stays.
    NEW.price := jsonb_strip_nulls(coalesce(NEW.price, '{}') || columns);
    RETURN NEW;
  END IF;
  NEW := jsonb_populate_record(
    NEW, no_rates || '{"tiers": [], "variants": [], "tool_prices": {}}' || coalesce(price_document(NEW.price), '{}'));
  RETURN NEW;
END
$$;

CREATE TRIGGER sync_price_columns BEFORE INSERT OR UPDATE ON model_prices
  FOR EACH ROW EXECUTE FUNCTION sync_price_columns();
CREATE TRIGGER sync_price_columns BEFORE INSERT OR UPDATE ON connector_prices
  FOR EACH ROW EXECUTE FUNCTION sync_price_columns();
