-- Operators' names for models and profiles: exact, or a beginning followed by *.
CREATE TABLE aliases (
  id text PRIMARY KEY,
  name text NOT NULL,
  -- <provider>/<model> or router/<profile>
  target text NOT NULL,
  -- Null: for all keys.
  policy_id text REFERENCES policies,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX aliases_by_name ON aliases (name, coalesce(policy_id, ''));
CREATE INDEX aliases_by_policy ON aliases (policy_id);
CREATE INDEX aliases_by_target ON aliases (target);
