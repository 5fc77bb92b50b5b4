-- What requests may call a model besides its id, and whether its provider makes it. A release sets both.
ALTER TABLE models
  ADD COLUMN other_names text[] NOT NULL DEFAULT '{}',
  ADD COLUMN own boolean NOT NULL DEFAULT false;
