-- Prices of other modalities, of tools that vendors run, and under other conditions of service. Null: not known.
ALTER TABLE model_prices
  ADD COLUMN input_audio_nano_usd bigint CHECK (input_audio_nano_usd >= 0),
  ADD COLUMN input_image_nano_usd bigint CHECK (input_image_nano_usd >= 0),
  ADD COLUMN cache_read_audio_nano_usd bigint CHECK (cache_read_audio_nano_usd >= 0),
  ADD COLUMN output_audio_nano_usd bigint CHECK (output_audio_nano_usd >= 0),
  ADD COLUMN output_image_nano_usd bigint CHECK (output_image_nano_usd >= 0),
  -- Lists of the same names: `service_tier`, `speed`, `geography`, rates as decimal strings, `tiers`.
  ADD COLUMN variants jsonb NOT NULL DEFAULT '[]',
  -- Decimal strings of nano-USD per use, by the tool's name.
  ADD COLUMN tool_prices jsonb NOT NULL DEFAULT '{}';
ALTER TABLE connector_prices
  ADD COLUMN input_audio_nano_usd bigint CHECK (input_audio_nano_usd >= 0),
  ADD COLUMN input_image_nano_usd bigint CHECK (input_image_nano_usd >= 0),
  ADD COLUMN cache_read_audio_nano_usd bigint CHECK (cache_read_audio_nano_usd >= 0),
  ADD COLUMN output_audio_nano_usd bigint CHECK (output_audio_nano_usd >= 0),
  ADD COLUMN output_image_nano_usd bigint CHECK (output_image_nano_usd >= 0),
  ADD COLUMN variants jsonb NOT NULL DEFAULT '[]',
  ADD COLUMN tool_prices jsonb NOT NULL DEFAULT '{}';

-- An operator's price without one for images covers them at the price of input, as it did until now.
UPDATE model_prices SET
  input_image_nano_usd = input_nano_usd,
  tiers = (SELECT coalesce(jsonb_agg(tier || jsonb_build_object('input_image_nano_usd', tier -> 'input_nano_usd') ORDER BY place), '[]')
           FROM jsonb_array_elements(tiers) WITH ORDINALITY AS listed (tier, place))
  WHERE origin = 'operator' AND NOT ended;
UPDATE connector_prices SET
  input_image_nano_usd = input_nano_usd,
  tiers = (SELECT coalesce(jsonb_agg(tier || jsonb_build_object('input_image_nano_usd', tier -> 'input_nano_usd') ORDER BY place), '[]')
           FROM jsonb_array_elements(tiers) WITH ORDINALITY AS listed (tier, place))
  WHERE NOT ended;
