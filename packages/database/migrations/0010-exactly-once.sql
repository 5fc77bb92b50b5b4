-- The ledger in partitions, and what makes it exact whatever dies: who wrote which usage, and how much of it has arrived.

-- The least UUIDv7 of an instant: what bounds partitions of events (https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7).
CREATE FUNCTION uuid_from(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS
  $$ SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid $$;

ALTER TABLE usage_events RENAME TO usage_events_before;
DROP INDEX usage_events_by_admission, usage_events_by_key, usage_events_by_principal, usage_events_by_request,
  usage_events_by_session;
ALTER TABLE usage_events_before DROP CONSTRAINT usage_events_pkey;

-- One row per attempt that was sent to a vendor, or per correction of one. Rows are only ever added. Partitioned by month
-- of the id; there is no default partition, so that nothing lands where nobody looks.
CREATE TABLE usage_events (
  event_id uuid PRIMARY KEY,
  kind text NOT NULL DEFAULT 'attempt' CHECK (kind IN ('attempt', 'correction')),
  request_id text NOT NULL,
  -- Which of its request's attempts it is, and which of those on the same model, both from 1. 0: a correction.
  attempt smallint NOT NULL DEFAULT 1 CHECK (attempt >= 0),
  model_attempt smallint NOT NULL DEFAULT 1 CHECK (model_attempt >= 0),
  key_id text NOT NULL,
  principal_id text NOT NULL,
  -- The governing policy.
  policy_id text NOT NULL,
  -- Every row of spend_buckets that it counts in, by key.
  bucket_keys text[] NOT NULL CHECK (cardinality(bucket_keys) > 0),
  model_requested text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  connector_id text NOT NULL,
  input_tokens integer NOT NULL,
  cache_read_tokens integer NOT NULL,
  cache_write_tokens integer NOT NULL,
  cache_write_1h_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  -- Signed in a correction.
  cost_nano_usd bigint NOT NULL CHECK (cost_nano_usd >= 0 OR kind = 'correction'),
  price_version integer NOT NULL,
  price_source text NOT NULL DEFAULT 'catalog' CHECK (price_source IN ('catalog', 'connector')),
  estimated boolean NOT NULL,
  outcome text NOT NULL,
  http_status integer NOT NULL,
  streamed boolean NOT NULL,
  admitted_at timestamptz(3) NOT NULL,
  settled_at timestamptz(3) NOT NULL,
  first_byte_us integer,
  duration_us integer NOT NULL,
  attribution jsonb NOT NULL,
  response_id text NOT NULL,
  -- Who wrote it, as the how-manieth of its shard; null in corrections, and in what came before this was kept.
  producer_id uuid,
  epoch uuid,
  shard smallint,
  n bigint CHECK (n > 0),
  -- The event that a correction corrects, and why.
  corrects uuid,
  reason text,
  CHECK ((kind = 'correction') = (corrects IS NOT NULL AND reason IS NOT NULL))
) PARTITION BY RANGE (event_id);
CREATE INDEX usage_events_by_admission ON usage_events (admitted_at, event_id);
CREATE INDEX usage_events_by_request ON usage_events (request_id);
CREATE INDEX usage_events_by_key ON usage_events (key_id, admitted_at, event_id);
CREATE INDEX usage_events_by_principal ON usage_events (principal_id, admitted_at, event_id);
CREATE INDEX usage_events_by_session ON usage_events ((attribution ->> 'session_sha256'), admitted_at, event_id)
  WHERE attribution ->> 'session_sha256' IS NOT NULL;
CREATE INDEX usage_events_by_corrected ON usage_events (corrects) WHERE corrects IS NOT NULL;

-- The partition of the month (UTC) in which `at` lies; does nothing where it is there.
CREATE FUNCTION create_usage_partition(at timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  month timestamptz := date_trunc('month', at, 'UTC');
  after timestamptz := (month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC';
  name text := 'usage_events_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
BEGIN
  IF to_regclass(name) IS NULL THEN
    EXECUTE format('CREATE TABLE %I PARTITION OF usage_events FOR VALUES FROM (%L) TO (%L)', name, uuid_from(month),
                   uuid_from(after));
  END IF;
END $$;

-- Months in UTC, whatever the session's time zone.
SELECT create_usage_partition(month AT TIME ZONE 'UTC')
FROM generate_series(
  date_trunc('month', least((SELECT min(settled_at) FROM usage_events_before), now()) AT TIME ZONE 'UTC')
    - interval '1 month',
  now() AT TIME ZONE 'UTC' + interval '2 months', interval '1 month') AS month;

INSERT INTO usage_events (
  event_id, request_id, attempt, model_attempt,
  key_id, principal_id, policy_id, bucket_keys, model_requested, model, connector_id, input_tokens,
  cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano_usd, price_version, price_source,
  estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us, duration_us, attribution, response_id)
SELECT
  event_id, request_id, least(row_number() OVER (PARTITION BY request_id ORDER BY event_id), 32767),
  least(row_number() OVER (PARTITION BY request_id, model ORDER BY event_id), 32767),
  key_id, principal_id, coalesce(policy_id, ''), ARRAY(
    SELECT DISTINCT (bucket ->> 'policy_id') || '/' || (bucket ->> 'counter_version') || '/' ||
      round(extract(epoch FROM (bucket ->> 'window_start')::timestamptz) * 1000)::bigint || '/' || counted.subject
    FROM jsonb_array_elements(buckets) AS bucket
    CROSS JOIN LATERAL (
      SELECT bucket ->> 'subject' AS subject UNION SELECT 'principal:' || principal_id
    ) AS counted
    ORDER BY 1), model_requested, model, connector_id, input_tokens,
  cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano_usd, price_version, price_source,
  estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us, duration_us, attribution, response_id
FROM usage_events_before
-- Ids of another version than 7 say nothing of the time; none was ever written by a proxy. What they cost stays in the
-- buckets, as their opening balances.
WHERE event_id >= uuid_from(
    (date_trunc('month', (SELECT min(settled_at) FROM usage_events_before) AT TIME ZONE 'UTC') - interval '1 month')
      AT TIME ZONE 'UTC')
  AND event_id < uuid_from(
    (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '3 months') AT TIME ZONE 'UTC');
DROP TABLE usage_events_before;

-- What a bucket counted before the ledger's rows reach back: before it was opened, or in partitions that were dropped.
-- spent = opening + what the ledger's rows that name it cost.
ALTER TABLE spend_buckets ADD COLUMN opening_nano_usd bigint NOT NULL DEFAULT 0;
UPDATE spend_buckets SET opening_nano_usd = spend_buckets.spent_nano_usd - coalesce(nano_usd, 0)
FROM spend_buckets AS bucket LEFT JOIN (
  SELECT counted_key, sum(cost_nano_usd) AS nano_usd
  FROM usage_events, unnest(bucket_keys) AS counted_key
  GROUP BY counted_key
) AS counted ON counted_key = bucket.bucket_key
WHERE spend_buckets.bucket_key = bucket.bucket_key;
CREATE INDEX spend_buckets_by_policy ON spend_buckets (policy_id, window_start);

-- Up to where the ledger's rows were dropped: what comes late, from before, is quarantined.
CREATE TABLE ledger_floor (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  dropped_before timestamptz
);
INSERT INTO ledger_floor DEFAULT VALUES;

-- A proxy's spool in one run of its process. open → closed, when all that it wrote is here; open → lost, when nobody
-- answers for it any more; lost → closed, by a late replay; lost → retired, when an operator accepts the loss.
CREATE TABLE producers (
  producer_id uuid NOT NULL,
  epoch uuid NOT NULL,
  name text NOT NULL DEFAULT '',
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'lost', 'retired')),
  first_seen_at timestamptz NOT NULL,
  last_seen_at timestamptz NOT NULL,
  -- All that it settled before is in the ledger.
  mark_at timestamptz NOT NULL,
  -- The epoch of the process that took the spool over: this one gets nothing any more.
  superseded_by uuid,
  ended_at timestamptz CHECK ((ended_at IS NULL) = (state = 'open')),
  retired_by text CHECK (state <> 'retired' OR retired_by IS NOT NULL),
  PRIMARY KEY (producer_id, epoch)
);
CREATE INDEX producers_by_state ON producers (state);

-- Which of its events have arrived. They are numbered from 1, without gaps.
CREATE TABLE producer_shards (
  producer_id uuid NOT NULL,
  epoch uuid NOT NULL,
  shard smallint NOT NULL,
  received int8multirange NOT NULL DEFAULT '{}',
  -- All up to this one have.
  recorded_n bigint NOT NULL GENERATED ALWAYS AS (lower(int8multirange(int8range(1, NULL)) - received) - 1) STORED,
  -- The last one that there is, once its spool says so.
  last_n bigint,
  -- Since when one is missing that a later one was seen of.
  gap_since timestamptz,
  PRIMARY KEY (producer_id, epoch, shard),
  FOREIGN KEY (producer_id, epoch) REFERENCES producers
);
CREATE INDEX producer_shards_with_gaps ON producer_shards (gap_since) WHERE gap_since IS NOT NULL;

-- What validation refused, kept whole: an event, or a message that could not be read at all.
ALTER TABLE quarantined_messages RENAME TO quarantined_usage;
ALTER TABLE quarantined_usage
  ADD COLUMN kind text NOT NULL DEFAULT 'event' CHECK (kind IN ('event', 'batch')),
  ADD COLUMN payload_sha256 bytea NOT NULL GENERATED ALWAYS AS (sha256(payload)) STORED,
  ADD COLUMN state text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'released', 'discarded')),
  ADD COLUMN producer_id uuid,
  ADD COLUMN epoch uuid,
  ADD COLUMN shard smallint,
  ADD COLUMN n bigint,
  -- Whose spend it is, where that can be read: else anybody's.
  ADD COLUMN principal_id text,
  ADD COLUMN resolved_at timestamptz CHECK ((resolved_at IS NULL) = (state = 'held')),
  ADD COLUMN resolved_by text,
  ADD COLUMN note text;
UPDATE quarantined_usage SET kind = 'batch' WHERE reason LIKE 'batch: %';
-- A message that is delivered again is not quarantined again; before, it was.
DELETE FROM quarantined_usage AS again USING quarantined_usage AS first
WHERE again.payload_sha256 = first.payload_sha256 AND again.id > first.id;
CREATE UNIQUE INDEX quarantined_usage_once ON quarantined_usage
  (payload_sha256, coalesce(producer_id, '00000000-0000-0000-0000-000000000000'),
   coalesce(epoch, '00000000-0000-0000-0000-000000000000'), coalesce(shard, -1), coalesce(n, 0));
CREATE INDEX quarantined_usage_held ON quarantined_usage (id) WHERE state = 'held';

-- Spend by the hour of admission (UTC) and by everything that it can be broken down by, but for labels. A shard has rows
-- of its own, so that its writer waits for no other.
CREATE TABLE usage_by_hour (
  hour timestamptz NOT NULL,
  -- SHA-256 of the values of the dimensions.
  group_sha256 bytea NOT NULL,
  shard smallint NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  policy_id text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL GENERATED ALWAYS AS (split_part(model, '/', 1)) STORED,
  "user" text,
  team text,
  project text,
  env text,
  workload_type text,
  namespace text,
  workload text,
  attempts bigint NOT NULL,
  -- First attempts of their requests, and first attempts of their requests on the model.
  requests bigint NOT NULL,
  model_requests bigint NOT NULL,
  estimated bigint NOT NULL,
  errors bigint NOT NULL,
  input_tokens bigint NOT NULL,
  cache_read_tokens bigint NOT NULL,
  cache_write_tokens bigint NOT NULL,
  cache_write_1h_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cost_nano_usd bigint NOT NULL,
  PRIMARY KEY (hour, group_sha256, shard)
);

-- Of what was recorded before. The digest is of each value with its length before it.
INSERT INTO usage_by_hour (
  hour, group_sha256, shard, principal_id, key_id, policy_id, model, "user", team, project, env, workload_type, namespace,
  workload, attempts, requests, model_requests, estimated, errors, input_tokens, cache_read_tokens, cache_write_tokens,
  cache_write_1h_tokens, output_tokens, cost_nano_usd)
SELECT
  hour,
  (SELECT sha256(convert_to(string_agg(coalesce(octet_length(value) || ':' || value, '-'), '' ORDER BY at), 'UTF8'))
   FROM unnest(ARRAY[principal_id, key_id, policy_id, model, "user", team, project, env, workload_type, namespace, workload])
     WITH ORDINALITY AS dimension (value, at)),
  0, principal_id, key_id, policy_id, model, "user", team, project, env, workload_type, namespace, workload, count(*),
  count(*) FILTER (WHERE attempt = 1), count(*) FILTER (WHERE model_attempt = 1), count(*) FILTER (WHERE estimated),
  count(*) FILTER (WHERE outcome IN ('upstream_error', 'upstream_unreachable', 'interrupted')), sum(input_tokens),
  sum(cache_read_tokens), sum(cache_write_tokens), sum(cache_write_1h_tokens), sum(output_tokens), sum(cost_nano_usd)
FROM usage_events
CROSS JOIN LATERAL (
  SELECT date_trunc('hour', admitted_at, 'UTC') AS hour, attribution ->> 'user' AS "user", attribution ->> 'team' AS team,
    attribution ->> 'project' AS project, attribution ->> 'env' AS env, attribution ->> 'workload_type' AS workload_type,
    attribution ->> 'namespace' AS namespace, attribution ->> 'workload' AS workload
) AS dimensions
GROUP BY hour, principal_id, key_id, policy_id, model, "user", team, project, env, workload_type, namespace, workload;
