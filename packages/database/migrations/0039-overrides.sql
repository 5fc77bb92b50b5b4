-- Another limit for one counter of a policy until a given time. It stands in for the policy's limit while `ended_at` is null and
-- `ends_at` is ahead.
CREATE TABLE budget_overrides (
  id text PRIMARY KEY,
  policy_id text NOT NULL REFERENCES policies (id),
  -- As in spend_buckets: 'key:…', 'principal:…' or 'policy'.
  subject text NOT NULL,
  -- Whose counter it is; null: everyone's who shares it.
  principal_id text,
  limit_nano_usd bigint NOT NULL CHECK (limit_nano_usd >= 0),
  reason text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL CHECK (ends_at > created_at),
  -- When it was ended, or was found to be over.
  ended_at timestamptz
);
CREATE UNIQUE INDEX budget_overrides_in_force ON budget_overrides (policy_id, subject) WHERE ended_at IS NULL;
CREATE INDEX budget_overrides_due ON budget_overrides (ends_at) WHERE ended_at IS NULL;
