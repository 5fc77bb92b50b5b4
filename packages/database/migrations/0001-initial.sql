-- Money columns end in their unit. Times are timestamptz, ids are text with a type prefix.

-- One row: every committed mutation that proxies must learn of counts it up, last in its transaction, so that
-- revisions have no gaps and follow the order of commits.
CREATE TABLE revision (
  singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
  revision bigint NOT NULL
);
INSERT INTO revision (revision) VALUES (1);

CREATE TABLE audit_log (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  actor_principal_id text NOT NULL,
  actor_key_id text,
  action text NOT NULL,
  resource_id text NOT NULL,
  detail jsonb NOT NULL DEFAULT '{}'
);

-- The secrets under which tokens are hashed. `secret` is null where the deployment gives it by its environment.
CREATE TABLE peppers (
  version integer PRIMARY KEY,
  secret bytea,
  fingerprint bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL
);

CREATE TABLE policies (
  id text PRIMARY KEY,
  name text NOT NULL,
  limit_nano_usd bigint CHECK (limit_nano_usd BETWEEN 0 AND 1000000000000000000),
  window_kind text NOT NULL CHECK (window_kind IN ('hour', 'day', 'week', 'month', 'none')),
  timezone text NOT NULL,
  counter_scope text NOT NULL CHECK (counter_scope IN ('key', 'principal', 'policy')),
  counter_version integer NOT NULL DEFAULT 1,
  counter_since timestamptz NOT NULL,
  enforcement text NOT NULL CHECK (enforcement IN ('enforce', 'shadow', 'off')),
  allowed_models text[] NOT NULL DEFAULT '{}',
  parent_policy_id text REFERENCES policies,
  default_for text CHECK (default_for IN ('service', 'user', 'all')),
  self_service boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX policies_one_default_each ON policies (default_for) WHERE default_for IS NOT NULL;

CREATE TABLE principals (
  id text PRIMARY KEY CHECK (length(id) BETWEEN 1 AND 200),
  policy_id text REFERENCES policies,
  created_at timestamptz NOT NULL
);

CREATE TABLE keys (
  id text PRIMARY KEY,
  name text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('service', 'user')),
  principal_id text NOT NULL REFERENCES principals,
  policy_id text REFERENCES policies,
  scopes text[] NOT NULL,
  attribution jsonb NOT NULL DEFAULT '{}',
  disabled boolean NOT NULL DEFAULT false,
  -- Set while an operator keeps the key disabled: its holder can't enable it again.
  disabled_by_operator boolean NOT NULL DEFAULT false,
  expires_at timestamptz,
  -- The key whose counter this one draws on under a key-scoped policy: its issuer's, unless an operator issued it.
  counter_key_id text NOT NULL REFERENCES keys DEFERRABLE INITIALLY DEFERRED,
  key_hint text NOT NULL,
  last_used_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX keys_by_principal ON keys (principal_id);
CREATE INDEX keys_by_policy ON keys (policy_id);

-- A key has one secret, and for a while two when it is rotated. Only an HMAC of the token's SHA-256 is kept.
CREATE TABLE key_secrets (
  secret_hash bytea PRIMARY KEY,
  pepper_version integer NOT NULL REFERENCES peppers,
  key_id text NOT NULL REFERENCES keys,
  created_at timestamptz NOT NULL
);
CREATE INDEX key_secrets_by_key ON key_secrets (key_id);

-- One upstream account. `credential_ref` says where the credential is (`env:NAME`), never what it is.
CREATE TABLE connectors (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE,
  provider text NOT NULL CHECK (provider ~ '^[a-z0-9-]+$' AND provider <> 'router'),
  dialect text NOT NULL CHECK (dialect IN ('openai', 'anthropic')),
  base_url text NOT NULL,
  credential_ref text,
  enabled boolean NOT NULL DEFAULT true,
  priority integer NOT NULL DEFAULT 0,
  -- 'environment': made at start from the environment, and disabled at a start without it.
  origin text NOT NULL CHECK (origin IN ('environment', 'operator')),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

CREATE TABLE models (
  -- Listed in byte order, whatever the database's own collation.
  id text COLLATE "C" PRIMARY KEY,
  provider text NOT NULL,
  upstream_name text NOT NULL,
  context_window integer NOT NULL CHECK (context_window > 0),
  max_output_tokens integer CHECK (max_output_tokens > 0),
  capabilities text[] NOT NULL DEFAULT '{}',
  benchmark_scores jsonb NOT NULL DEFAULT '{}',
  deprecated_at timestamptz,
  updated_at timestamptz NOT NULL
);

-- Nano-USD per one million tokens. A price is never edited: a new one gets the next version.
CREATE TABLE model_prices (
  model_id text NOT NULL REFERENCES models,
  version integer NOT NULL,
  input_nano_usd bigint NOT NULL CHECK (input_nano_usd >= 0),
  output_nano_usd bigint NOT NULL CHECK (output_nano_usd >= 0),
  cache_read_nano_usd bigint NOT NULL CHECK (cache_read_nano_usd >= 0),
  cache_write_nano_usd bigint NOT NULL CHECK (cache_write_nano_usd >= 0),
  cache_write_1h_nano_usd bigint NOT NULL CHECK (cache_write_1h_nano_usd >= 0),
  -- [{above_input_tokens, input_nano_usd, …}], amounts as decimal strings.
  tiers jsonb NOT NULL DEFAULT '[]',
  created_at timestamptz NOT NULL,
  PRIMARY KEY (model_id, version)
);

-- The ledger: one row per attempt that was sent to a vendor. Rows are only ever added.
CREATE TABLE usage_events (
  event_id uuid PRIMARY KEY,
  request_id text NOT NULL,
  key_id text NOT NULL,
  principal_id text NOT NULL,
  -- The counters that it was admitted on: [{policy_id, counter_version, subject, window_start}].
  buckets jsonb NOT NULL,
  model_requested text NOT NULL,
  model text NOT NULL,
  connector_id text NOT NULL,
  input_tokens integer NOT NULL,
  cache_read_tokens integer NOT NULL,
  cache_write_tokens integer NOT NULL,
  cache_write_1h_tokens integer NOT NULL,
  output_tokens integer NOT NULL,
  cost_nano_usd bigint NOT NULL,
  price_version integer NOT NULL,
  estimated boolean NOT NULL,
  outcome text NOT NULL,
  http_status integer NOT NULL,
  streamed boolean NOT NULL,
  admitted_at timestamptz NOT NULL,
  settled_at timestamptz NOT NULL,
  first_byte_us integer,
  duration_us integer NOT NULL,
  attribution jsonb NOT NULL,
  response_id text NOT NULL
);

-- Spend of one counter in one window. The ledger's rows are the truth; a bucket is their sum.
CREATE TABLE spend_buckets (
  bucket_key text PRIMARY KEY,
  policy_id text NOT NULL,
  counter_version integer NOT NULL,
  subject text NOT NULL,
  window_start timestamptz NOT NULL,
  spent_nano_usd bigint NOT NULL
);

-- What could not be read as usage: kept whole, so that nothing is lost.
CREATE TABLE quarantined_messages (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  received_at timestamptz NOT NULL,
  reason text NOT NULL,
  payload bytea NOT NULL
);
