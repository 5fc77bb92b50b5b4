import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { migrate, schemaMismatch } from '@weighbridge/database';
import { sql } from 'kysely';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { untilLockWaits } from './lockWaits.ts';
import { createEmptyDatabase, type TestDatabase } from './testDatabase.ts';

// Tests of packages/database. They are in this package because it depends on that one.
describe('a schema that another release migrated', () => {
  const folders: URL[] = [];
  const ours = new URL('../../database/migrations/', import.meta.url);
  /** The migrations of a release; those of this one up to `upTo`, and others. */
  async function release(upTo: string, others: Readonly<Record<string, string>> = {}): Promise<URL> {
    const folder = pathToFileURL(`${await mkdtemp(join(tmpdir(), 'weighbridge-migrations-'))}/`);
    folders.push(folder);
    for (const file of await readdir(ours)) {
      if (file.endsWith('.sql') && file <= `${upTo}.sql`)
        await cp(new URL(file, ours), new URL(file, folder));
    }
    for (const [name, text] of Object.entries(others)) await writeFile(new URL(`${name}.sql`, folder), text);
    return folder;
  }
  let empty: TestDatabase;
  beforeEach(async () => {
    empty = await createEmptyDatabase();
  });
  afterEach(async () => {
    await empty.drop();
    for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
  });
  const namesIn = async (table: string) => {
    const found = await sql<{ name: string }>`SELECT name FROM ${sql.table(table)} ORDER BY name`.execute(
      empty.db,
    );
    return found.rows.map(({ name }) => name);
  };
  const GATE = 460_046;
  const EXPAND = { '9001-expand': 'CREATE TABLE later (a int);' };
  const CONTRACT = {
    ...EXPAND,
    '9002-contract': '-- contract: requires 9001-expand\nDROP TABLE later;',
  };

  it('can be newer: a release that has fewer migrations starts, and its `migrate` does nothing', async () => {
    const older = await release('9000');
    await migrate(empty.db, await release('9000', EXPAND));
    expect(await schemaMismatch(empty.db, older)).toBeUndefined();
    expect(await migrate(empty.db, older)).toEqual([]);
    expect(await namesIn('schema_migrations')).toContain('9001-expand');
  });

  it('is migrated again if Postgres rolled that back, because an app locks tables in another order', async () => {
    await migrate(empty.db, await release('9000'));
    await sql`CREATE TABLE one (a int)`.execute(empty.db);
    await sql`CREATE TABLE two (a int)`.execute(empty.db);
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const gated = empty.db.transaction().execute(async (tx) => {
      await sql`SELECT pg_advisory_xact_lock(${GATE})`.execute(tx);
      await opened;
    });
    let migrating: Promise<string[]> | undefined;
    await empty.db.transaction().execute(async (app) => {
      // So that Postgres rolls back the migration.
      await sql`SET LOCAL deadlock_timeout = '1h'`.execute(app);
      await sql`INSERT INTO two VALUES (1)`.execute(app);
      migrating = migrate(
        empty.db,
        await release('9000', {
          '9001-both': `ALTER TABLE one ADD b int; SELECT pg_advisory_xact_lock(${GATE}); ALTER TABLE two ADD b int;`,
        }),
      );
      await untilLockWaits(empty.db, 1);
      const inserted = sql`INSERT INTO one VALUES (1)`.execute(app);
      await untilLockWaits(empty.db, 2);
      open();
      await gated;
      await inserted;
    });
    expect(await migrating).toEqual(['9001-both']);
  });

  it('must not have contracted: a release below what it requires refuses, and says what to do', async () => {
    const [older, middle] = [await release('9000'), await release('9000', EXPAND)];
    expect(await migrate(empty.db, await release('9000', CONTRACT))).toContain('9002-contract');
    const message =
      /newer than this release: since the migration 9002-contract.*releases that have the migration 9001-expand/;
    expect(await schemaMismatch(empty.db, older)).toMatch(message);
    await expect(migrate(empty.db, older)).rejects.toThrow(message);
    expect(await schemaMismatch(empty.db, middle)).toBeUndefined();
    expect(await migrate(empty.db, middle)).toEqual([]);
    // Release 0.1.0 refuses a schema where its own table has a migration that it does not know.
    expect((await namesIn('kysely_migration')).slice(-2)).toEqual(['0017-oidc-callers', '9001-expand']);
  });

  it('may lack a migration of an older line; one that lacks and has others is refused', async () => {
    await migrate(empty.db, await release('9000', EXPAND));
    const patched = await release('9000', { ...EXPAND, '0017-z-patch': 'CREATE TABLE patched (a int);' });
    expect(await migrate(empty.db, patched)).toEqual(['0017-z-patch']);
    const other = await release('9000', { '9001-other': 'CREATE TABLE other (a int);' });
    expect(await schemaMismatch(empty.db, other)).toContain('lacks the migration 9001-other');
    await expect(migrate(empty.db, other)).rejects.toThrow(/has the migration 9001-expand.*lacks 9001-other/);
  });

  it('keeps what release 0.1.0 records apart, and moves what earlier builds recorded there', async () => {
    await migrate(empty.db, await release('0024-z'));
    expect((await namesIn('kysely_migration')).at(-1)).toBe('0017-oidc-callers');
    // As a build before this table existed left it.
    await sql`DELETE FROM kysely_migration`.execute(empty.db);
    await sql`INSERT INTO kysely_migration SELECT name, timestamp FROM schema_migrations`.execute(empty.db);
    await sql`DROP TABLE schema_migrations, schema_migrations_lock`.execute(empty.db);
    expect(await schemaMismatch(empty.db)).toContain('lacks the migration 0025-aliases');
    const applied = await Promise.all([migrate(empty.db), migrate(empty.db), migrate(empty.db)]);
    expect(applied.flat().at(0)).toBe('0025-aliases');
    expect(new Set(applied.flat()).size).toBe(applied.flat().length);
    expect(await namesIn('schema_migrations')).toContain('0024-pin-prompt-cache-keys');
    expect((await namesIn('kysely_migration')).at(-1)).toBe('0017-oidc-callers');
    expect(await schemaMismatch(empty.db)).toBeUndefined();
  });

  it('can be empty', async () => {
    expect(await schemaMismatch(empty.db)).toContain('lacks the migration 0001-initial');
  });

  it('is left as it was by a contract migration that fails', async () => {
    await migrate(empty.db);
    const failing = { '9001-fails': '-- contract: requires 0001-initial\nDROP TABLE no_such_table;' };
    await expect(migrate(empty.db, await release('9000', failing))).rejects.toThrow('9001-fails failed');
    expect(await namesIn('schema_migrations')).not.toContain('9001-fails');
    expect(await empty.db.selectFrom('schema_requirements').selectAll().execute()).toEqual([]);
  });
});
