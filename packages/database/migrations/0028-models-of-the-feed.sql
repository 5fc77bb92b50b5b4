-- Models that the feed has and the catalog lacked.

ALTER TABLE models
  DROP CONSTRAINT models_origin_check,
  ADD CONSTRAINT models_origin_check CHECK (origin IN ('catalog', 'feed', 'operator'));

-- True: with this price the feed added the model to the catalog.
ALTER TABLE catalog_feed_changes ADD COLUMN adds_model boolean NOT NULL DEFAULT false;
