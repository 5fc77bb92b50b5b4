-- True: the lead of its principal's team issued it, or a key did that is one. Its secret is known to who is not its principal, so it
-- acts in no role of that principal. No lead could issue keys before this release.
ALTER TABLE keys ADD COLUMN issued_by_lead boolean NOT NULL DEFAULT false;
