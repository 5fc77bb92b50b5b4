import { createDb, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createTestDatabase } from './testDatabase.ts';

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, {
    applicationName: 'test',
    maxConnections: 1,
    prepares: true,
    onIdleError: () => {},
  });
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

/** What Postgres keeps prepared on the connection, and how often it planned each once for all values. */
async function prepared(): Promise<{ count: number; generic: number }> {
  const { rows } = await sql<{ count: number; generic: number }>`
    SELECT count(*)::integer AS count, coalesce(sum(generic_plans), 0)::integer AS generic
    FROM pg_prepared_statements WHERE NOT statement LIKE '%pg_prepared_statements%'`.execute(db);
  return rows[0] ?? { count: 0, generic: 0 };
}

const ask = async (value: number) =>
  (await sql<{ one: number }>`SELECT ${value}::integer AS one`.execute(db)).rows[0]?.one;

it('plans a statement once for all values', async () => {
  for (let value = 0; value < 10; value++) expect(await ask(value)).toBe(value);
  const { count, generic } = await prepared();
  expect([count, generic > 0]).toEqual([1, true]);
});

it('goes on when a migration changes what a statement returns', async () => {
  await sql`CREATE TABLE grown (id integer)`.execute(db);
  await sql`INSERT INTO grown VALUES (1)`.execute(db);
  const rows = async () => (await sql`SELECT * FROM grown WHERE id = ${1}`.execute(db)).rows;
  expect(await rows()).toEqual([{ id: 1 }]);
  await sql`ALTER TABLE grown ADD COLUMN name text`.execute(db);
  for (let times = 0; times < 3; times++) expect(await rows()).toEqual([{ id: 1, name: null }]);
});

it('prepares a bounded number of statements', async () => {
  for (let n = 0; n < 200; n++) await sql.raw(`SELECT ${n}`).execute(db);
  for (let n = 0; n < 200; n++) await sql`SELECT ${sql.raw(`${n}`)} + ${n}::integer`.execute(db);
  expect((await prepared()).count).toBeLessThanOrEqual(70);
});

it('goes on behind a pooler that gives its connection to others, without repeating what ran', async () => {
  expect(await ask(1)).toBe(1);
  // What a pooler in transaction mode does to a client: another connection of the server, where nothing is prepared.
  await sql`DEALLOCATE ALL`.execute(db);
  expect(await ask(2)).toBe(2);
  await sql`CREATE TABLE counted (n integer)`.execute(db);
  for (let n = 0; n < 3; n++) await sql`INSERT INTO counted VALUES (${n})`.execute(db);
  expect((await sql`SELECT n FROM counted ORDER BY n`.execute(db)).rows).toEqual([
    { n: 0 },
    { n: 1 },
    { n: 2 },
  ]);
  expect((await prepared()).count).toBe(0);
});

it('keeps the error of a statement that is wrong', async () => {
  await expect(sql`SELECT ${1}::integer / 0`.execute(db)).rejects.toMatchObject({ code: '22012' });
});
