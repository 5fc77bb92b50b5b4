-- Teams of principals. They form a tree.
CREATE TABLE teams (
  id text PRIMARY KEY,
  name text NOT NULL,
  parent_team_id text REFERENCES teams,
  -- Counts for every request of the team and of the teams below it.
  policy_id text REFERENCES policies,
  -- Governs the requests of its members.
  member_policy_id text REFERENCES policies,
  -- Since when neither the team nor the teams below it are served; null: they are.
  frozen_at timestamptz,
  deleted_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX teams_by_name ON teams (name) WHERE deleted_at IS NULL;
CREATE INDEX teams_by_parent ON teams (parent_team_id);
CREATE INDEX teams_by_policy ON teams (policy_id);
CREATE INDEX teams_by_member_policy ON teams (member_policy_id);

-- A principal is in one team at most.
ALTER TABLE principals
  ADD COLUMN team_id text REFERENCES teams,
  ADD COLUMN team_role text CHECK (team_role IN ('member', 'lead')),
  -- What it may do for everyone; null: what its team and the scopes of its keys say.
  ADD COLUMN role text CHECK (role IN ('operator', 'finance', 'auditor')),
  -- Since when its keys are disabled.
  ADD COLUMN deactivated_at timestamptz,
  ADD CHECK ((team_id IS NULL) = (team_role IS NULL));
-- Who had keys for everything goes on as before, in whichever team it may be put.
UPDATE principals SET role = 'operator'
WHERE EXISTS (
  SELECT FROM keys WHERE principal_id = principals.id AND revoked_at IS NULL AND 'operator' = ANY (scopes)
);
CREATE INDEX principals_by_team ON principals (team_id, id) WHERE team_id IS NOT NULL;

-- Set while a key is disabled because its principal was deactivated.
ALTER TABLE keys ADD COLUMN disabled_with_principal boolean NOT NULL DEFAULT false;

-- A revoked key may have been governed by its principal's team.
ALTER TABLE keys
  DROP CONSTRAINT keys_revoked_source_check,
  ADD CONSTRAINT keys_revoked_source_check
    CHECK (revoked_source IN ('key', 'principal', 'team', 'default')) NOT VALID;
