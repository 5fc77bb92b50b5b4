-- Where requests under a policy say whom they are for, beside the headers of this service: headers, each with the attribution that it
-- says, and the body.
ALTER TABLE policies
  ADD COLUMN attribution_headers jsonb NOT NULL DEFAULT '{}',
  ADD COLUMN user_from_body boolean NOT NULL DEFAULT false;
