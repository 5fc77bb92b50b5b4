import { createExplainedDatabase, createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { recordBounded } from '../../test/boundedSums.ts';
import type { EventFields } from '../../test/events.ts';
import { openMonth } from '../../test/ledger.ts';
import { readSpendRows } from './spendBreakdown.ts';
import type { SpendQuery } from './spendQuery.ts';

const FROM = Date.parse('2026-11-10T00:00:00Z');
const DAY_MS = 86_400_000;
const DAYS = 6;
const KEYS = 60;
/** Until within a day, so that hours are read too. */
const filter = { from: new Date(FROM), to: new Date(FROM + (DAYS - 0.5) * DAY_MS) };
const REPORTS: readonly (readonly [string, Pick<SpendQuery, 'filter' | 'groupBy'>])[] = [
  ['the total of all', { filter, groupBy: [] }],
  ['spend by key', { filter, groupBy: ['key'] }],
  ['spend by principal and model', { filter, groupBy: ['principal', 'model'] }],
  ['spend by policy', { filter, groupBy: ['policy'] }],
  ['the total of another principal', { filter: { ...filter, principalId: 'principal_3' }, groupBy: [] }],
  [
    'spend of another principal by user',
    { filter: { ...filter, principalId: 'principal_3' }, groupBy: ['user'] },
  ],
  ['spend of another key by user', { filter: { ...filter, keyId: 'key_3' }, groupBy: ['user'] }],
  [
    "a member's spend by user",
    { filter: { ...filter, within: { principalId: 'principal_3', teamIds: [] } }, groupBy: ['user'] },
  ],
];

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let explained: ReturnType<typeof createExplainedDatabase>;
let next = 1;
beforeAll(async () => {
  database = await createTestDatabase();
  explained = createExplainedDatabase(database.url);
  await openMonth(database.db, filter.from);
});
afterAll(async () => {
  await explained.db.destroy();
  await database.drop();
});

async function record(events: readonly EventFields[]): Promise<void> {
  const numbered = events.map((fields) => ({ ...fields, n: next++ }));
  for (let at = 0; at < numbered.length; at += 2_000)
    await recordBounded(database.db, numbered.slice(at, at + 2_000));
}

/** The rows that each report's statements visit. */
async function visits(): Promise<number[]> {
  await sql`VACUUM ANALYZE`.execute(database.db);
  const visited: number[] = [];
  for (const [, query] of REPORTS) {
    await readSpendRows(explained.db, { ...query, bucketEdges: [] }, { after: undefined, limit: 500 });
    visited.push(explained.statements.splice(0).reduce((sum, statement) => sum + statement.visited, 0));
  }
  return visited;
}

const at = (day: number, hour: number) => new Date(FROM + day * DAY_MS + hour * 3_600_000);

it("a report that needs no user of a key reads no more rows for that key's many users", async () => {
  const days = Array.from({ length: DAYS }, (_, day) => day);
  const keys = Array.from({ length: KEYS }, (_, n) => n);
  await record(
    days.flatMap((day) =>
      keys.flatMap((n) =>
        [1, 9].map((hour) => ({
          ...{ key: `key_${n}`, principal: `principal_${n}`, admittedAt: at(day, hour) },
          attribution: { user: `user ${hour}` },
        })),
      ),
    ),
  );
  const before = await visits();
  await record(
    days.flatMap((day) =>
      Array.from({ length: 2_000 }, (_, n) => ({
        ...{ key: 'key_many', principal: 'many', admittedAt: at(day, 9) },
        attribution: { user: `user ${day} ${n}` },
      })),
    ),
  );
  const after = await visits();
  for (const [index, [name]] of REPORTS.entries()) {
    expect([name, after[index]]).toEqual([
      name,
      expect.toSatisfy((n: number) => n <= 1.2 * (before[index] ?? 0) + 20),
    ]);
  }
});
