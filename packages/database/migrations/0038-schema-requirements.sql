-- The migrations that a release must have to run on this schema. A contract migration adds one (docs/adr/0055); empty: every
-- release whose own migrations are all applied may run.
CREATE TABLE schema_requirements (
  migration text COLLATE "C" PRIMARY KEY,
  -- The contract migration.
  required_by text NOT NULL
);
