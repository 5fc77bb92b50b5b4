-- The team of the principal at admission. Null: it was in none, or the usage is older than teams.
ALTER TABLE usage_events ADD COLUMN team_id text;
ALTER TABLE usage_by_hour ADD COLUMN team_id text;
