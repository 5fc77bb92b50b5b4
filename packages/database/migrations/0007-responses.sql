-- Which principal made which response that a vendor keeps, and through which connector it is read back. Vendors make
-- the ids, so an id is unique for one account only. Rows are forgotten after 90 days.
CREATE TABLE stored_responses (
  response_id text NOT NULL CHECK (length(response_id) BETWEEN 1 AND 512),
  connector_id text NOT NULL,
  principal_id text NOT NULL,
  key_id text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (response_id, connector_id)
);
CREATE INDEX stored_responses_by_age ON stored_responses (created_at);
