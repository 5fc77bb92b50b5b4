-- How the policy that governed a key came to do so when the key was revoked: its policy_id names that policy from then
-- on, whatever named it before. Null where the key is in use, or was revoked before this was kept.
ALTER TABLE keys
  ADD COLUMN revoked_source text CHECK (revoked_source IN ('key', 'principal', 'default')),
  ADD CHECK (revoked_source IS NULL OR revoked_at IS NOT NULL);
