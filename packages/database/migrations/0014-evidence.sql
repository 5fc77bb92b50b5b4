-- How well models do the work that callers ask for, by workload type: what the strategy `adaptive` draws from.

-- The workload types of late. The callers name them, so their number is bounded: the rest count as '', as what names none.
CREATE TABLE evidence_types (
  -- The first 8 bytes of the SHA-256 of what the caller said, in hex; '' where it said nothing.
  workload_type text PRIMARY KEY CHECK (workload_type ~ '^([0-9a-f]{16})?$'),
  -- What the caller said, cut for display.
  name text NOT NULL,
  -- How far evidence of the type has aged, in half-lives: it goes on with time, and with each request at any model.
  age double precision NOT NULL DEFAULT 0,
  used_at timestamptz NOT NULL,
  -- Counts up with each change of its strata.
  version bigint NOT NULL DEFAULT 1
);

-- Sums over attempts, as they count at an age of their workload type. Statistics: none of it is money.
CREATE TABLE evidence_strata (
  workload_type text NOT NULL REFERENCES evidence_types ON DELETE CASCADE,
  model text NOT NULL,
  age double precision NOT NULL,
  requests double precision NOT NULL,
  successes double precision NOT NULL,
  latency_ms double precision NOT NULL,
  time_to_first_token_ms double precision NOT NULL,
  timed double precision NOT NULL,
  cost_nano_usd double precision NOT NULL,
  score_sum double precision NOT NULL,
  scores double precision NOT NULL,
  PRIMARY KEY (workload_type, model)
) WITH (fillfactor = 70);

-- A sum after so many half-lives. Neither a power nor a product may get so small that Postgres refuses it.
CREATE FUNCTION faded(value double precision, half_lives double precision) RETURNS double precision
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
  $$ SELECT CASE WHEN value < 1e-30 THEN 0 ELSE value * power(0.5::float8, least(greatest(half_lives, 0), 100)) END $$;

-- What callers said of answers, once for each request of theirs.
CREATE TABLE feedback (
  request_id text NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  score double precision NOT NULL CHECK (score BETWEEN 0 AND 1),
  comment text CHECK (length(comment) <= 1000),
  given_at timestamptz NOT NULL,
  -- Where the score is counted, and at which age; null: the ledger does not have the request yet.
  workload_type text,
  model text,
  age double precision,
  PRIMARY KEY (request_id, principal_id),
  CHECK ((workload_type IS NULL) = (model IS NULL) AND (model IS NULL) = (age IS NULL))
);
CREATE INDEX feedback_pending ON feedback (principal_id, given_at) WHERE model IS NULL;
CREATE INDEX feedback_by_time ON feedback (given_at);
