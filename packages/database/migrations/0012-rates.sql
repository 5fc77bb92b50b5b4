-- Requests and tokens of a minute that proxies were granted beyond their own shares. Worth no write-ahead log: a crash
-- costs the limits one minute's precision.
CREATE UNLOGGED TABLE rate_minutes (
  -- The policy, its counter's version, and the subject.
  counter_key text PRIMARY KEY,
  minute bigint NOT NULL,
  requests bigint NOT NULL,
  tokens bigint NOT NULL
);

-- How long a model's answers are of late, over all keys: what requests that name no limit are expected to take.
CREATE TABLE model_outputs (
  model text PRIMARY KEY,
  p95_tokens integer NOT NULL CHECK (p95_tokens >= 0),
  measured_at timestamptz NOT NULL
);

-- Told once: that a counter reached a percentage of its policy's limit.
CREATE TABLE budget_thresholds_reached (
  bucket_key text NOT NULL,
  percent integer NOT NULL,
  reached_at timestamptz NOT NULL,
  PRIMARY KEY (bucket_key, percent)
);
