-- How requests to a connector are authorised if that is computed, such as by the access tokens of an OAuth client.
-- Null: by the credential, or by nothing. Columns of their own, so that a control plane of an earlier release never takes such
-- a secret for a credential, which it would send to the upstream.
ALTER TABLE connectors
  ADD COLUMN auth jsonb,
  -- The secrets of `auth` that were given rather than referenced.
  ADD COLUMN auth_sealed bytea,
  ADD COLUMN auth_kek_id text,
  ADD CONSTRAINT connectors_auth_or_credential
    CHECK (auth IS NULL OR (credential_ref IS NULL AND credential_sealed IS NULL)),
  ADD CONSTRAINT connectors_auth_sealed_under
    CHECK ((auth_sealed IS NULL) = (auth_kek_id IS NULL) AND (auth_sealed IS NULL OR auth IS NOT NULL));
