-- Which principal made which object that a vendor keeps: the items of responses, conversations, containers, and responses
-- whose record in stored_responses has expired. Hashes are enough to tell whose an id is, and are all that is kept.
CREATE TABLE stored_objects (
  -- The first 16 bytes of the SHA-256 of the vendor's id.
  object_hash bytea NOT NULL CHECK (length(object_hash) = 16),
  -- Ids are unique for one account only.
  connector_id text NOT NULL,
  -- The same of the principal's id.
  owner_hash bytea NOT NULL CHECK (length(owner_hash) = 16),
  -- When no vendor can have it any more.
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (object_hash, connector_id)
);
CREATE INDEX stored_objects_by_expiry ON stored_objects (expires_at);

-- A record of a response that goes, whoever deletes it, leaves a hash: else another principal could read the response.
CREATE FUNCTION leave_stored_object() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO stored_objects (object_hash, connector_id, owner_hash, expires_at)
  SELECT substring(sha256(convert_to(response_id, 'UTF8')) FOR 16), connector_id,
         substring(sha256(convert_to(principal_id, 'UTF8')) FOR 16), created_at + interval '3 years'
  FROM gone
  ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE TRIGGER stored_responses_leave_objects AFTER DELETE ON stored_responses
  REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION leave_stored_object();

-- What a policy does with ids that the service knows nothing of: `any` lets the vendor answer, `own` refuses them.
ALTER TABLE policies ADD COLUMN foreign_objects text NOT NULL DEFAULT 'any' CHECK (foreign_objects IN ('any', 'own'));
