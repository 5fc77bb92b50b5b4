-- A policy that is deleted stays for what it governed: revoked keys and the ledger name it.
ALTER TABLE policies ADD COLUMN deleted_at timestamptz,
  ADD CHECK (deleted_at IS NULL OR default_for IS NULL);
CREATE INDEX policies_by_creation ON policies (created_at DESC, id DESC) WHERE deleted_at IS NULL;
