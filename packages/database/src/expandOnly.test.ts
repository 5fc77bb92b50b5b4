import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { contractions, requiredMigration } from './expandOnly.ts';

const FOLDER = new URL('../migrations/', import.meta.url);
/** What release 0.1.0 has. Every later migration has to leave it running. */
const RELEASED = '0017-oidc-callers.sql';

const files = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.sql'))
  .sort();

describe('migrations after the first release', () => {
  const later = files.filter((file) => file > RELEASED);
  it('are checked', () => expect(later.length).toBeGreaterThan(10));

  it.each(later)('%s only expands, or names the migration that a release needs from then on', (file) => {
    const text = readFileSync(new URL(file, FOLDER), 'utf8');
    const required = requiredMigration(text);
    if (required === undefined) expect(contractions(text)).toEqual([]);
    else {
      expect(files).toContain(`${required}.sql`);
      expect(`${required}.sql` < file).toBe(true);
    }
  });
});

describe('a migration contracts if it', () => {
  it.each([
    ['drops a table', 'DROP TABLE keys;'],
    ['drops an index', 'drop index if exists keys_by_issuer;'],
    ['empties a table', 'TRUNCATE sessions;'],
    ['deletes rows', 'DELETE FROM keys WHERE revoked_at IS NOT NULL;'],
    ['drops a column', 'ALTER TABLE keys DROP COLUMN name;'],
    ['drops a column beside another change', "ALTER TABLE keys ADD COLUMN a text DEFAULT 'x,(', DROP name;"],
    ['renames a column', 'ALTER TABLE keys RENAME COLUMN name TO title;'],
    ['renames a table', 'ALTER TABLE IF EXISTS ONLY keys RENAME TO tokens;'],
    ['renames a type', 'ALTER TYPE state RENAME VALUE $$a$$ TO $$b$$;'],
    ['changes a type', 'ALTER TABLE keys ALTER COLUMN name TYPE varchar(10);'],
    ['forbids null', 'ALTER TABLE keys ALTER name SET NOT NULL;'],
    ['drops a default', 'ALTER TABLE keys ALTER COLUMN name DROP DEFAULT;'],
    ['adds a column that writers must set', 'ALTER TABLE keys\n  ADD COLUMN team_id text NOT NULL;'],
    ['the same without COLUMN', 'ALTER TABLE keys ADD team_id text NOT NULL;'],
    ['rewrites a table', 'ALTER TABLE keys ADD COLUMN tag uuid NOT NULL DEFAULT gen_random_uuid();'],
    [
      'adds a check on what there is',
      "ALTER TABLE keys ADD CONSTRAINT short CHECK (name <> ''), ADD COLUMN a int;",
    ],
    ['adds a unique index on what there is', 'CREATE UNIQUE INDEX CONCURRENTLY keys_by_name ON keys (name);'],
    [
      'adds a foreign key on what there is',
      'ALTER TABLE keys ADD FOREIGN KEY (policy_id) REFERENCES policies;',
    ],
  ])('%s', (_what, text) => expect(contractions(text)).toHaveLength(1));
});

describe('a migration only expands if it', () => {
  it.each([
    [
      'adds tables, with what they need',
      'CREATE TABLE a (b text NOT NULL UNIQUE); CREATE UNIQUE INDEX c ON a (b); ALTER TABLE a ADD CHECK (b > 1);',
    ],
    [
      'adds columns with defaults',
      "ALTER TABLE keys ADD COLUMN a text NOT NULL DEFAULT '; DROP TABLE keys', ADD b int;",
    ],
    [
      'widens a check',
      "ALTER TABLE m DROP CONSTRAINT o_check, ADD CONSTRAINT o_check CHECK (o IN ('a', 'b'));",
    ],
    [
      'checks what it adds',
      'ALTER TABLE keys ADD COLUMN a int, ADD CONSTRAINT both CHECK (a IS NULL OR name IS NULL);',
    ],
    ['says more in comments', '-- DROP TABLE keys;\n/* TRUNCATE keys; */ CREATE INDEX i ON keys (name);'],
    [
      'adds a function',
      'CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM x; RETURN NULL; END $$;',
    ],
    ['fills what it adds', 'UPDATE keys SET a = 1;'],
  ])('%s', (_what, text) => expect(contractions(text)).toEqual([]));
});

it('reads what a contract migration requires', () => {
  expect(requiredMigration('-- Nothing uses it since.\n-- contract: requires 0041-x\nDROP TABLE a;')).toBe(
    '0041-x',
  );
  expect(requiredMigration('-- contract: requires\nDROP TABLE a;')).toBeUndefined();
});
