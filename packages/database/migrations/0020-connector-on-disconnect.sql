-- What a proxy does with a stream of this connector that its client left; null: by what is known of the provider.
ALTER TABLE connectors
  ADD COLUMN on_disconnect text CHECK (on_disconnect IN ('cancel', 'drain'));
