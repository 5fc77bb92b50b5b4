import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { migrate } from '@weighbridge/database';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { eventually } from './eventually.ts';
import { useDatabase } from './testDatabase.ts';

// Tests of packages/database. They are in this package because it depends on that one.
const database = useDatabase();

it('migrating again changes nothing, even several times at once', async () => {
  const again = () => migrate(database.db);
  expect(await Promise.all([again(), again(), again()])).toEqual([[], [], []]);
});

it('the committed table types match the migrated schema: if not, run `pnpm generate`', () => {
  const folder = fileURLToPath(new URL('../../database/', import.meta.url));
  const before = readFileSync(`${folder}/src/tables.ts`, 'utf8');
  const args = ['--config-file', '.kysely-codegenrc.json', '--url', database.url, '--print'];
  const printed = execFileSync(`${folder}/node_modules/.bin/kysely-codegen`, args, {
    cwd: folder,
    encoding: 'utf8',
  });
  expect(printed.slice(printed.indexOf('/**')).trim()).toBe(before.trim());
});

it('amounts are read as integers of any size', async () => {
  const { rows } = await sql<{ amount: bigint }>`SELECT 9007199254740993::bigint AS amount`.execute(
    database.db,
  );
  expect(rows[0]?.amount).toBe(9_007_199_254_740_993n);
});

it('a connection that breaks during a transaction fails only that transaction', async () => {
  const broken = database.db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`.execute(tx);
    await sql`SELECT pg_terminate_backend(${rows[0]?.pid})`.execute(database.db);
    // No query is in progress when the connection breaks.
    await eventually(async () => {
      const backend = await sql`SELECT FROM pg_stat_activity WHERE pid = ${rows[0]?.pid}`.execute(
        database.db,
      );
      expect(backend.rows).toEqual([]);
    });
    await sql`SELECT 1`.execute(tx);
  });
  await expect(broken).rejects.toThrow();
  expect((await sql<{ one: number }>`SELECT 1 AS one`.execute(database.db)).rows).toEqual([{ one: 1 }]);
});
