-- Who manages the key as code: the owner of the files that `apply` issued it for. Null: it was issued by hand.
ALTER TABLE keys ADD COLUMN managed_by text;
