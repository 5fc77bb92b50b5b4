-- Also of a further limit's counters: then `policy_id` is as in spend_buckets, 'pol_….lim_…'. Policies are never deleted from their table.
ALTER TABLE budget_overrides DROP CONSTRAINT budget_overrides_policy_id_fkey;
-- Of attribution, as its operator gave it: a long one is a hash in `subject`.
ALTER TABLE budget_overrides ADD COLUMN value text;
