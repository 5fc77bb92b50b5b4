-- Fields of requests that a hard budget lets pass although it can't bound their cost: `tools[].type`.
ALTER TABLE policies ADD COLUMN hard_allow_fields text[] NOT NULL DEFAULT '{}';
