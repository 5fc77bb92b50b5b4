-- What becomes of requests when the budget of a policy that governs them is used up: they go by this profile, and this policy
-- governs them. Both are set or neither: then they are refused.
ALTER TABLE policies
  ADD COLUMN exhausted_profile_id text,
  ADD COLUMN exhausted_policy_id text;
