-- What became of the leases of a closed epoch: metering closes them in portions after it was closed, and deletes them later.
ALTER TABLE producers ADD COLUMN leases text NOT NULL DEFAULT 'open' CHECK (leases IN ('open', 'closed', 'deleted'));
CREATE INDEX producers_with_leases ON producers (leases, ended_at) WHERE state = 'closed' AND leases <> 'deleted';

-- A batch writes most rows of a page twice before the versions that it leaves can be reused: without room beside them, each of these
-- versions goes to another page, and into all indexes.
ALTER TABLE budget_leases SET (fillfactor = 50);
ALTER TABLE spend_buckets SET (fillfactor = 50);
