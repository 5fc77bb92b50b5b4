-- The memory in GB of the largest container that a request for the object may reuse (`container: auto`); 0: none, or of 1 GB. It
-- matters for as long as a container lives, so the hash that a deleted response leaves has none.
ALTER TABLE stored_objects ADD COLUMN container_gb smallint NOT NULL DEFAULT 0;
ALTER TABLE stored_responses ADD COLUMN container_gb smallint NOT NULL DEFAULT 0;
