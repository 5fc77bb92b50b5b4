-- Whether a profile takes requests with the same prompt_cache_key for one session, and pins it.
ALTER TABLE profiles ADD COLUMN pin_prompt_cache_keys boolean NOT NULL DEFAULT false;
