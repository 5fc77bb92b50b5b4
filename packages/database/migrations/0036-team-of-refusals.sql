-- The team of the principal when the request was refused. Null: it was in none, or the row is older than teams.
ALTER TABLE refused_requests ADD COLUMN team_id text;
