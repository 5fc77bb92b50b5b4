-- Budgets that hold on many proxies at once: each draws on leases, and a grant never exceeds what nobody else holds.

ALTER TABLE spend_buckets
  -- The policy's limit, as of the last call for a lease; null: unlimited, or never asked for.
  ADD COLUMN limit_nano_usd bigint CHECK (limit_nano_usd >= 0),
  -- The sum of what leases hold in it.
  ADD COLUMN leased_nano_usd bigint NOT NULL DEFAULT 0 CHECK (leased_nano_usd >= 0);

-- What a proxy's process may spend of a bucket. Its figures only ever grow, so that whatever is lost, repeated or late on
-- the way changes nothing.
CREATE TABLE budget_leases (
  bucket_key text NOT NULL REFERENCES spend_buckets,
  producer_id uuid NOT NULL,
  epoch uuid NOT NULL,
  -- Its bucket's window: nothing is admitted on it from then on. Null: the window never ends.
  window_end timestamptz,
  -- Its newest call; an older one gets nothing.
  seq bigint NOT NULL,
  granted_nano_usd bigint NOT NULL CHECK (granted_nano_usd >= 0),
  returned_nano_usd bigint NOT NULL CHECK (returned_nano_usd BETWEEN 0 AND granted_nano_usd),
  -- What the ledger has of it. May exceed what was granted: an estimate may be too low.
  settled_nano_usd bigint NOT NULL DEFAULT 0 CHECK (settled_nano_usd >= 0),
  -- All that its epoch spent is in the ledger.
  closed boolean NOT NULL DEFAULT false,
  -- The policy's next counter, where one was started while this lease was held: it holds there as well.
  also_bucket_key text REFERENCES spend_buckets CHECK (also_bucket_key <> bucket_key),
  -- What it may still spend, or has spent without the ledger having it yet.
  hold_nano_usd bigint NOT NULL GENERATED ALWAYS AS
    (CASE WHEN closed THEN 0 ELSE greatest(granted_nano_usd - returned_nano_usd - settled_nano_usd, 0) END) STORED,
  PRIMARY KEY (bucket_key, producer_id, epoch),
  FOREIGN KEY (producer_id, epoch) REFERENCES producers
);
CREATE INDEX budget_leases_by_holder ON budget_leases (producer_id, epoch);
CREATE INDEX budget_leases_open ON budget_leases (producer_id, epoch) WHERE NOT closed;
CREATE INDEX budget_leases_by_next_bucket ON budget_leases (also_bucket_key) WHERE also_bucket_key IS NOT NULL;

-- Whatever the code does: these two can't happen.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, DETAIL = OLD::text || ' → ' || NEW::text;
END $$;
CREATE TRIGGER budget_leases_only_grow BEFORE UPDATE ON budget_leases FOR EACH ROW
  WHEN (NEW.seq < OLD.seq OR NEW.granted_nano_usd < OLD.granted_nano_usd OR NEW.returned_nano_usd < OLD.returned_nano_usd
        OR NEW.settled_nano_usd < OLD.settled_nano_usd
        OR (OLD.closed AND (NOT NEW.closed OR NEW.granted_nano_usd > OLD.granted_nano_usd))
        OR (NEW.bucket_key, NEW.producer_id, NEW.epoch) IS DISTINCT FROM (OLD.bucket_key, OLD.producer_id, OLD.epoch))
  EXECUTE FUNCTION refuse_change('what a lease counts only grows, and a closed one is granted nothing');
CREATE TRIGGER spend_buckets_hold BEFORE UPDATE ON spend_buckets FOR EACH ROW
  WHEN (NEW.leased_nano_usd > OLD.leased_nano_usd AND NEW.spent_nano_usd + NEW.leased_nano_usd > NEW.limit_nano_usd)
  EXECUTE FUNCTION refuse_change('a grant would exceed the limit');
