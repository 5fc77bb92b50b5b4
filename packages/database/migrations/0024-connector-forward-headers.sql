-- Headers of clients that this account gets besides those that every vendor of its dialect gets.
ALTER TABLE connectors
  ADD COLUMN forward_headers text[] NOT NULL DEFAULT '{}';
