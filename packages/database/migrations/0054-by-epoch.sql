-- A hello looks up whose an epoch is, and closing its leases whether usage of it waits in quarantine. Both tables are small.
CREATE INDEX producers_by_epoch ON producers (epoch);
CREATE INDEX quarantined_usage_held_by_epoch ON quarantined_usage (producer_id, epoch) WHERE state = 'held';
