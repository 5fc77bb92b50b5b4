-- The key that issued a key, so that revoking a leaked key can revoke what was issued with it. The previous release runs on: the
-- issuer of keys that it issues meanwhile is not known.
ALTER TABLE keys
  ADD COLUMN issued_by_key_id text REFERENCES keys,
  -- False: issued before this was recorded, and not in the audit log. True without a key: issued by the service or an OIDC token.
  ADD COLUMN is_issuer_known boolean NOT NULL DEFAULT false;
UPDATE keys
SET is_issuer_known = true,
    issued_by_key_id = (SELECT issuer.id FROM keys AS issuer WHERE issuer.id = audit.actor_key_id)
FROM audit_log AS audit
WHERE audit.action = 'key.created' AND audit.resource_id = keys.id
  AND (audit.actor_key_id IS NULL OR EXISTS (SELECT FROM keys AS issuer WHERE issuer.id = audit.actor_key_id));
CREATE INDEX keys_by_issuer ON keys (issued_by_key_id) WHERE issued_by_key_id IS NOT NULL;
CREATE INDEX keys_of_unknown_issuer ON keys (principal_id) WHERE NOT is_issuer_known AND revoked_at IS NULL;
-- For the limit on the keys of a principal, however many it revoked.
CREATE INDEX keys_in_use_by_principal ON keys (principal_id) WHERE revoked_at IS NULL;
