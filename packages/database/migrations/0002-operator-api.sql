-- What the operator API manages beyond keys: whole policies, sealed credentials, negotiated prices, profiles.

ALTER TABLE policies
  ADD COLUMN budget_mode text NOT NULL DEFAULT 'balanced' CHECK (budget_mode IN ('balanced', 'hard')),
  ADD COLUMN requests_per_minute integer CHECK (requests_per_minute > 0),
  ADD COLUMN tokens_per_minute bigint CHECK (tokens_per_minute > 0),
  ADD COLUMN max_parallel integer CHECK (max_parallel > 0),
  ADD COLUMN profile_id text,
  -- What of the policy's answers may be cached, and for whom; null: nothing is.
  ADD COLUMN cache jsonb,
  -- Percent of the limit at which to tell somebody.
  ADD COLUMN thresholds integer[] NOT NULL DEFAULT '{}';
CREATE INDEX policies_by_parent ON policies (parent_policy_id) WHERE parent_policy_id IS NOT NULL;
CREATE INDEX principals_by_policy ON principals (policy_id) WHERE policy_id IS NOT NULL;

ALTER TABLE keys ADD COLUMN revoked_at timestamptz;
CREATE INDEX keys_by_creation ON keys (created_at DESC, id DESC);
CREATE INDEX keys_by_principal_and_creation ON keys (principal_id, created_at DESC, id DESC);
DROP INDEX keys_by_principal;

-- A secret that was replaced works until then.
ALTER TABLE key_secrets ADD COLUMN expires_at timestamptz;

-- Answers to be given again to a repeated request, sealed under the token that asked.
CREATE TABLE idempotent_answers (
  key_id text NOT NULL REFERENCES keys,
  idempotency_key text NOT NULL,
  request_sha256 bytea NOT NULL,
  sealed_answer bytea NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (key_id, idempotency_key)
);
CREATE INDEX idempotent_answers_by_age ON idempotent_answers (created_at);

CREATE TABLE profiles (
  id text PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]*$'),
  strategy text NOT NULL CHECK (strategy IN ('ordered', 'weighted', 'cheapest', 'fastest', 'best_score', 'adaptive')),
  -- [{model, weight}]
  targets jsonb NOT NULL,
  -- {context_window, max_input_price_micro_usd, max_output_price_micro_usd, min_score, capabilities}
  constraints jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
ALTER TABLE policies ADD FOREIGN KEY (profile_id) REFERENCES profiles;

ALTER TABLE connectors
  ADD COLUMN weight integer NOT NULL DEFAULT 1 CHECK (weight > 0),
  ADD COLUMN max_parallel integer CHECK (max_parallel > 0),
  -- Which of its provider's models it serves: anchored patterns; empty for all of them.
  ADD COLUMN models text[] NOT NULL DEFAULT '{}',
  -- {"<provider>/<model>": "what this account calls it"}
  ADD COLUMN upstream_names jsonb NOT NULL DEFAULT '{}',
  -- The credential itself, sealed by a data key of its own that is sealed by the named key-encryption key.
  ADD COLUMN credential_sealed bytea,
  ADD COLUMN credential_kek_id text,
  ADD CHECK ((credential_sealed IS NULL) = (credential_kek_id IS NULL)),
  ADD CHECK (credential_sealed IS NULL OR credential_ref IS NULL);

-- 'catalog': shipped, and brought up to date at each start. 'operator': the operator's own; a start leaves it alone.
ALTER TABLE models
  ADD COLUMN origin text NOT NULL DEFAULT 'catalog' CHECK (origin IN ('catalog', 'operator')),
  ADD COLUMN disabled boolean NOT NULL DEFAULT false;

ALTER TABLE model_prices
  ADD COLUMN origin text NOT NULL DEFAULT 'catalog' CHECK (origin IN ('catalog', 'operator'));

-- Negotiated prices of one connector. As the catalog's, a price is never edited; one that ends gets a version without rates.
CREATE TABLE connector_prices (
  connector_id text NOT NULL REFERENCES connectors,
  model_id text NOT NULL REFERENCES models,
  version integer NOT NULL,
  ended boolean NOT NULL DEFAULT false,
  input_nano_usd bigint NOT NULL CHECK (input_nano_usd >= 0),
  output_nano_usd bigint NOT NULL CHECK (output_nano_usd >= 0),
  cache_read_nano_usd bigint NOT NULL CHECK (cache_read_nano_usd >= 0),
  cache_write_nano_usd bigint NOT NULL CHECK (cache_write_nano_usd >= 0),
  cache_write_1h_nano_usd bigint NOT NULL CHECK (cache_write_1h_nano_usd >= 0),
  tiers jsonb NOT NULL DEFAULT '[]',
  created_at timestamptz NOT NULL,
  PRIMARY KEY (connector_id, model_id, version)
);

CREATE INDEX audit_log_by_resource ON audit_log (resource_id, id DESC);
CREATE INDEX audit_log_by_actor ON audit_log (actor_principal_id, id DESC);

-- For spend and requests read from the ledger's rows.
CREATE INDEX usage_events_by_admission ON usage_events (admitted_at);
CREATE INDEX usage_events_by_request ON usage_events (request_id);
CREATE INDEX usage_events_by_key ON usage_events (key_id, admitted_at);
CREATE INDEX usage_events_by_principal ON usage_events (principal_id, admitted_at);
