-- Where operators want to learn of events.
CREATE TABLE webhooks (
  id text COLLATE "C" PRIMARY KEY,
  name text NOT NULL,
  url text NOT NULL,
  format text NOT NULL CHECK (format IN ('json', 'slack', 'teams', 'pagerduty')),
  -- Empty: all.
  events text[] NOT NULL,
  -- Not empty: only events of these policies, or of policies below them.
  policy_ids text[] NOT NULL DEFAULT '{}',
  -- Not empty: only events of these teams, or of teams below them.
  team_ids text[] NOT NULL DEFAULT '{}',
  enabled boolean NOT NULL DEFAULT true,
  secret_sealed bytea NOT NULL,
  secret_kek_id text NOT NULL,
  -- The secret that a rotation replaced: until then, messages carry its signature too.
  previous_secret_sealed bytea,
  previous_secret_kek_id text,
  previous_secret_until timestamptz,
  -- What PagerDuty calls an integration key.
  routing_key_sealed bytea,
  routing_key_kek_id text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((previous_secret_sealed IS NULL) = (previous_secret_until IS NULL)),
  CHECK ((format = 'pagerduty') = (routing_key_sealed IS NOT NULL))
);
CREATE UNIQUE INDEX webhooks_by_name ON webhooks (name);

-- The outbox: what happened, written in the transaction that made it happen.
CREATE TABLE webhook_events (
  id text COLLATE "C" PRIMARY KEY,
  type text NOT NULL,
  -- What happens once, whoever notices it and however often.
  once_key text COLLATE "C" NOT NULL,
  data jsonb NOT NULL,
  created_at timestamptz NOT NULL,
  -- Null: its deliveries are still to be made.
  dispatched_at timestamptz,
  UNIQUE (type, once_key)
);
CREATE INDEX webhook_events_waiting ON webhook_events (id) WHERE dispatched_at IS NULL;
CREATE INDEX webhook_events_by_time ON webhook_events (created_at);

CREATE TABLE webhook_deliveries (
  id text COLLATE "C" PRIMARY KEY,
  webhook_id text COLLATE "C" NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event_id text COLLATE "C" NOT NULL REFERENCES webhook_events ON DELETE CASCADE,
  state text NOT NULL CHECK (state IN ('pending', 'delivered', 'given_up')),
  attempts integer NOT NULL DEFAULT 0,
  -- While an attempt is made, when another may be, should its sender die. Null: no attempt follows.
  next_attempt_at timestamptz,
  last_attempt_at timestamptz,
  -- Of the last attempt; null: there was no answer.
  status integer,
  duration_ms integer,
  error text,
  created_at timestamptz NOT NULL,
  -- No attempt is made after it.
  give_up_at timestamptz NOT NULL,
  UNIQUE (webhook_id, event_id),
  CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries (event_id);
