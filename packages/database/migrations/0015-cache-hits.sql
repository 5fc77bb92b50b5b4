-- Answers that came from the response cache: requests that cost nothing, and that no vendor saw.
ALTER TABLE usage_events ADD COLUMN cache_hit boolean NOT NULL DEFAULT false;

ALTER TABLE profiles ADD COLUMN cache jsonb;
