import { bucketKey, bucketOfKey, furtherLimitId, valueSubject } from '@weighbridge/budget';
import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { costOf } from '../../test/explain.ts';
import { COUNTER_ORDERS, type CounterOrder, countersSql, readCounters } from './readCounters.ts';

const VALUES = 50_000;
const SIZE = 101;
const WINDOW = {
  policyId: furtherLimitId('pol_1', 'lim_1'),
  counterVersion: 1,
  windowStartMs: BigInt(Date.parse('2026-11-10T00:00:00Z')),
  scope: undefined,
};
const subject = (n: number) => valueSubject('user', `user ${n}`);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  const prefix = bucketKey({ ...WINDOW, subject: '' });
  // Amounts of seven orders of magnitude, as customers' are; many are equal.
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT ${prefix}::text || 'user:user ' || n, ${WINDOW.policyId}, 1, 'user:user ' || n,
      ${new Date(Number(WINDOW.windowStartMs))}, (exp((n * 7919 % 1000) / 62.0) * 100)::bigint
    FROM generate_series(1, ${VALUES}::integer) AS n`.execute(db);
  await sql`VACUUM ANALYZE spend_buckets`.execute(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const page = (order: CounterOrder, after?: { amount: bigint; bucketKey: string }, limit = SIZE) => ({
  order,
  after,
  limit,
});
const cost = (query: Parameters<typeof countersSql>[1], subjects?: readonly string[]) =>
  costOf(db, countersSql({ ...WINDOW, subjects }, query));

it('a page of the counters of a limit by spend reads few of them, near the end of the list as at its start', async () => {
  for (const order of ['-spent', 'spent'] as const) {
    const [first, middle] = await Promise.all(
      [0, VALUES / 2].map(async (offset) => {
        const { rows } = await sql<{ amount: bigint; bucketKey: string }>`
          SELECT spent_nano_usd AS amount, bucket_key AS "bucketKey" FROM spend_buckets
          ORDER BY spent_nano_usd ${order === 'spent' ? sql`ASC` : sql`DESC`}, bucket_key COLLATE "C"
          OFFSET ${offset} LIMIT 1`.execute(db);
        return await cost(page(order, offset === 0 ? undefined : rows[0]));
      }),
    );
    for (const one of [first, middle]) {
      expect(one?.indexes, order).toContain('spend_buckets_by_class');
      // The rows of one or two classes of thirty, and what is looked up beside the page. All rows are as many pages as values.
      expect(one?.blocks, order).toBeLessThan(VALUES / 8 + SIZE * 20);
    }
  }
});

it('the counter of a value is looked up by its key', async () => {
  const { blocks, indexes } = await cost(page('-spent'), [subject(7)]);
  expect(indexes).toContain('spend_buckets_pkey');
  expect(blocks).toBeLessThan(30);
});

it('pages of every order have each counter once, in this order', async () => {
  for (const order of COUNTER_ORDERS) {
    const rows = [];
    for (let after: { amount: bigint; bucketKey: string } | undefined; ; ) {
      const read = await readCounters(db, WINDOW, page(order, after, 10_000));
      rows.push(...read);
      const last = read.at(-1);
      if (!last) break;
      after = { amount: last.orderedBy, bucketKey: last.bucketKey };
    }
    expect(new Set(rows.map((row) => bucketOfKey(row.bucketKey).subject)).size, order).toBe(VALUES);
    const amounts = rows.map((row) => (order.endsWith('spent') ? row.spent : row.leased));
    const isInOrder = amounts.every((amount, at) => {
      const before = amounts[at - 1] ?? amount;
      return order.startsWith('-') ? before >= amount : before <= amount;
    });
    expect(isInOrder, order).toBe(true);
  }
});
