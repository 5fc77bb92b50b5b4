-- Connectors and the catalog as operators manage them.

ALTER TABLE connectors
  -- Gone from every list, and its name free again; the row stays for what the ledger says of it.
  ADD COLUMN deleted_at timestamptz,
  -- Set while the environment no longer asks for a connector that it made. `enabled` is the operator's.
  ADD COLUMN withdrawn boolean NOT NULL DEFAULT false,
  DROP CONSTRAINT connectors_name_key;
CREATE UNIQUE INDEX connectors_by_name ON connectors (name) WHERE deleted_at IS NULL;

ALTER TABLE models
  -- What the release says of the model, price included: what an override hides, and where its end leads back to.
  ADD COLUMN shipped jsonb,
  -- The columns of a shipped model that an operator set: a start leaves them alone.
  ADD COLUMN overridden text[] NOT NULL DEFAULT '{}',
  ADD COLUMN deleted_at timestamptz;

-- From an ended version on there is no price. It has no rates, so that nothing can take them for zeros.
ALTER TABLE model_prices
  ADD COLUMN ended boolean NOT NULL DEFAULT false,
  ALTER COLUMN input_nano_usd DROP NOT NULL,
  ALTER COLUMN output_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_read_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_write_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_write_1h_nano_usd DROP NOT NULL,
  ADD CHECK (num_nulls(input_nano_usd, output_nano_usd, cache_read_nano_usd, cache_write_nano_usd,
                       cache_write_1h_nano_usd) = CASE WHEN ended THEN 5 ELSE 0 END);
ALTER TABLE connector_prices
  ALTER COLUMN input_nano_usd DROP NOT NULL,
  ALTER COLUMN output_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_read_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_write_nano_usd DROP NOT NULL,
  ALTER COLUMN cache_write_1h_nano_usd DROP NOT NULL,
  ADD CHECK (num_nulls(input_nano_usd, output_nano_usd, cache_read_nano_usd, cache_write_nano_usd,
                       cache_write_1h_nano_usd) = CASE WHEN ended THEN 5 ELSE 0 END);
-- Listed in byte order, as the models themselves.
ALTER TABLE connector_prices ALTER COLUMN model_id TYPE text COLLATE "C";

-- Whose price `price_version` counts: the catalog's, or the one negotiated for the connector.
ALTER TABLE usage_events
  ADD COLUMN price_source text NOT NULL DEFAULT 'catalog' CHECK (price_source IN ('catalog', 'connector'));
