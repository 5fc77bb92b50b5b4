-- Requests that were refused: rows without cost, for a while. Metering writes them; no sum reads them.
CREATE TABLE refused_requests (
  id uuid PRIMARY KEY,
  refused_at timestamptz NOT NULL,
  -- Empty for a count.
  request_id text NOT NULL,
  key_id text NOT NULL,
  principal_id text NOT NULL,
  -- The governing policy.
  policy_id text NOT NULL,
  endpoint text NOT NULL,
  model_requested text NOT NULL,
  http_status integer NOT NULL,
  code text NOT NULL,
  message text NOT NULL,
  -- Attempts that were sent to vendors before it was refused.
  attempts integer NOT NULL,
  -- The counter whose limit it met.
  counter jsonb,
  attribution jsonb NOT NULL,
  -- Of a count: how many requests of the key were refused in the minute that begins then, beyond those with rows, by code.
  counts jsonb
);
CREATE INDEX refused_requests_by_time ON refused_requests (refused_at, id);
CREATE INDEX refused_requests_by_key ON refused_requests (key_id, refused_at, id);
CREATE INDEX refused_requests_by_principal ON refused_requests (principal_id, refused_at, id);
CREATE INDEX refused_requests_by_request ON refused_requests (request_id) WHERE request_id <> '';
CREATE UNIQUE INDEX refused_requests_counts ON refused_requests (key_id, refused_at) WHERE counts IS NOT NULL;

-- The newest batch of each proxy's run that is recorded: one that arrives again changes nothing.
CREATE TABLE refusal_batches (
  producer_id uuid NOT NULL,
  epoch uuid NOT NULL,
  n bigint NOT NULL,
  received_at timestamptz NOT NULL,
  PRIMARY KEY (producer_id, epoch)
);
