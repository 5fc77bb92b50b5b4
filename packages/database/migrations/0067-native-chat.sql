-- Whether chat completions for this account go to its vendor's own API, or to the vendor's OpenAI-compatible one.
ALTER TABLE connectors
  ADD COLUMN chat text NOT NULL DEFAULT 'native' CHECK (chat IN ('native', 'compatible'));
-- Whether translated requests of these keys, or on this profile, ask the vendor to cache their prompts.
ALTER TABLE policies
  ADD COLUMN auto_cache boolean NOT NULL DEFAULT false;
ALTER TABLE profiles
  ADD COLUMN auto_cache boolean NOT NULL DEFAULT false;
