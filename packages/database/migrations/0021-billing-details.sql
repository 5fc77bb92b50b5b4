-- What a row's cost depends on besides its tokens, by the names of the API. Null: the list price of text, as in rows of earlier
-- releases. Tokens of other modalities are part of the token columns: this says how many they are.
ALTER TABLE usage_events ADD COLUMN details jsonb;
CREATE INDEX usage_events_price_incomplete ON usage_events (admitted_at, event_id) WHERE details ? 'unpriced';
