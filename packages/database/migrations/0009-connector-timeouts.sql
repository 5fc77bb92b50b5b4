-- How long a connector's upstream may take; null: as long as each proxy's own setting says.
ALTER TABLE connectors
  ADD COLUMN connect_timeout_ms integer CHECK (connect_timeout_ms > 0),
  ADD COLUMN first_byte_timeout_ms integer CHECK (first_byte_timeout_ms > 0),
  ADD COLUMN chunk_timeout_ms integer CHECK (chunk_timeout_ms > 0);
