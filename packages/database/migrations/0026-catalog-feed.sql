-- How old prices are, and the feed that may change them.

-- 'feed': the price of a feed, with what the feed does not know from the version before.
ALTER TABLE model_prices
  DROP CONSTRAINT model_prices_origin_check,
  ADD CONSTRAINT model_prices_origin_check CHECK (origin IN ('catalog', 'feed', 'operator')),
  -- False: a feed changed it within bounds, and no person has seen it. The bounds are counted from what was reviewed.
  ADD COLUMN reviewed boolean NOT NULL DEFAULT true;

ALTER TABLE models
  -- As of when the release has the price that it ships. Null: it ships none.
  ADD COLUMN shipped_priced_at timestamptz,
  -- When the feed last stated the price of the version beside it.
  ADD COLUMN feed_confirmed_at timestamptz,
  ADD COLUMN feed_confirmed_version integer;

-- One row once a feed was configured: what every control plane knows of it.
CREATE TABLE catalog_feed (
  only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
  -- Without its query, which may have a secret; the hash tells whether it is another feed.
  url text NOT NULL,
  url_sha256 text NOT NULL,
  -- Who fetches moves it before it starts, so that one control plane does.
  next_fetch_at timestamptz NOT NULL,
  etag text,
  -- The last document that was read, gzipped: what a feed means that has not changed, as when a dated price becomes due.
  content bytea,
  fetched_at timestamptz,
  result text CHECK (result IN ('applied', 'not_modified', 'failed')),
  error text,
  succeeded_at timestamptz,
  failing_since timestamptz,
  -- Counts and examples of the last fetch that was read.
  summary jsonb NOT NULL DEFAULT '{}'
);

-- What a feed changed or wants to change. Prices as `models.shipped` has its price.
CREATE TABLE catalog_feed_changes (
  id text COLLATE "C" PRIMARY KEY,
  model_id text COLLATE "C" NOT NULL REFERENCES models,
  state text NOT NULL CHECK (state IN ('applied', 'held', 'approved', 'rejected', 'withdrawn')),
  -- Why it waits for a person. Null: it did not.
  held_because text,
  -- The version that it was compared with; null: the model had no price.
  version_before integer,
  price_before jsonb,
  price_after jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  decided_at timestamptz
);
CREATE UNIQUE INDEX catalog_feed_changes_held ON catalog_feed_changes (model_id) WHERE state = 'held';

CREATE INDEX catalog_feed_changes_model ON catalog_feed_changes (model_id, created_at DESC);
