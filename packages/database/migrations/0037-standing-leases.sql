-- What each lease may keep while its proxy spends nothing: the small part of the limit that still serves if the control plane or
-- the database is away. Together at most a tenth of the limit.
ALTER TABLE budget_leases ADD COLUMN standing_nano_usd bigint NOT NULL DEFAULT 0 CHECK (standing_nano_usd >= 0);
