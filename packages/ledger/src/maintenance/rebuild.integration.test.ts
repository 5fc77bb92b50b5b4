import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventFields, ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth } from '../../test/ledger.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { readSumsSince } from '../spend/sumsSince.ts';
import {
  columnsOf,
  DAYS,
  HOURS,
  KEEPS_SUMS,
  SUM_DIMENSIONS,
  SUM_MEASURES,
  SUMS_TABLES,
} from '../spend/usageSums.ts';
import { RebuildRunningError } from './maintenanceLock.ts';
import { rebuildBuckets } from './rebuild.ts';

const START = Date.parse('2026-11-10T00:00:00Z');
const CLEAN = { differingBuckets: 0, differing: [], differenceNanoUsd: 0n, differingHours: 0 };

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let next = 0;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  await openMonth(db, new Date('2026-11-10T12:00:00Z'));
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const text = fc.constantFrom('', 'x', 'ä\n', 'a/b', '-', '1:x', '"\\');
const fields: fc.Arbitrary<EventFields> = fc.record({
  principal: fc.constantFrom('ada', 'line\nbreak/and "more"', 'bob'),
  policies: fc.constantFrom(['pol_a'], ['pol_b', 'pol_a']),
  cost: fc.bigInt({ min: 0n, max: 1_000n }),
  outcome: fc.constantFrom('success', 'interrupted'),
  estimated: fc.boolean(),
  admittedAt: fc.integer({ min: 0, max: 10_800_000 }).map((ms) => new Date(START + ms)),
  attribution: fc.record({ user: text, team: text, workload: text }, { requiredKeys: [] }),
});

async function write(count: number): Promise<void> {
  const events = fc.sample(fields, { numRuns: count, seed: next }).map((one) => ledgerEvent(next++, one));
  await recordUsage(db, eventsOnly(events));
}

/** Checks all derived sums against the ledger's rows. */
async function expectDerived(): Promise<void> {
  const buckets = await sql`
    SELECT key, sum(cost_nano_usd)::bigint AS nano FROM usage_events, unnest(bucket_keys) AS key GROUP BY key ORDER BY key`;
  const { rows: expected } = await buckets.execute(db);
  const { rows: held } =
    await sql`SELECT bucket_key AS key, spent_nano_usd - opening_nano_usd AS nano FROM spend_buckets ORDER BY 1`.execute(
      db,
    );
  expect(held).toEqual(expected);
  const byHour = (table: string, hour: string, attempts: string, user: string) => sql`
    SELECT ${sql.raw(hour)} AS hour, principal_id, ${sql.raw(user)} AS "user", ${sql.raw(attempts)}::bigint AS attempts,
      sum(cost_nano_usd)::bigint AS nano, sum(output_tokens)::bigint AS output
    FROM ${sql.table(table)} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`;
  const { rows: hours } = await byHour('usage_by_hour', 'hour', 'sum(attempts)', '"user"').execute(db);
  const rows = byHour(
    'usage_events',
    "date_trunc('hour', admitted_at)",
    'count(*)',
    "attribution ->> 'user'",
  );
  expect(hours).toEqual((await rows.execute(db)).rows);
}

/** How the sums of days differ from those of hours. */
async function daysThatDiffer(): Promise<unknown[]> {
  const sums = SUM_MEASURES.map((name) => sql`sum(${sql.ref(name)})`);
  const { rows } = await sql`
    SELECT day, group_sha256, shard FROM (
      SELECT ${columnsOf(DAYS)} FROM usage_by_day
      EXCEPT
      SELECT date_trunc('day', hour, 'UTC'), group_sha256, shard, ${sql.join(SUM_DIMENSIONS.map((name) => sql.ref(name)))},
        ${sql.join(sums)}
      FROM usage_by_hour
      GROUP BY 1, group_sha256, shard, ${sql.join(SUM_DIMENSIONS.map((name) => sql.ref(name)))}
    ) AS differing`.execute(db);
  return rows;
}

/** Damage as from bugs, or from people with psql. */
async function damage(): Promise<void> {
  await sql`UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 17 WHERE subject = 'policy'`.execute(
    db,
  );
  await sql`DELETE FROM spend_buckets WHERE subject LIKE 'principal:line%'`.execute(db);
  await sql`UPDATE usage_by_hour SET attempts = attempts + 1, cost_nano_usd = cost_nano_usd - 3
            WHERE principal_id = 'ada'`.execute(db);
  await sql`DELETE FROM usage_by_hour WHERE principal_id = 'bob' AND "user" = 'x'`.execute(db);
  await sql`
    INSERT INTO usage_by_hour (${columnsOf(HOURS)})
    SELECT ${columnsOf(HOURS)}
    FROM (
      SELECT made.*
      FROM (SELECT usage_by_hour AS one FROM usage_by_hour LIMIT 1) AS any_row,
        jsonb_populate_record(one, '{"team": "nobody", "group_sha256": "\\\\x00"}') AS made
    ) AS unfounded`.execute(db);
}

describe('a rebuild', () => {
  it('finds no differences in a correct ledger', async () => {
    await write(300);
    expect(await rebuildBuckets(db, { apply: true })).toMatchObject({ ...CLEAN, events: BigInt(next) });
    await expectDerived();
    expect(await daysThatDiffer()).toEqual([]);
  });

  it('writes the sums of days with those of hours', async () => {
    await db.transaction().execute(async (tx) => {
      await sql`SELECT ${KEEPS_SUMS}`.execute(tx);
      await sql`DELETE FROM usage_by_hour`.execute(tx);
      await sql`DELETE FROM usage_by_day`.execute(tx);
    });
    await rebuildBuckets(db, { apply: true });
    await expectDerived();
    expect(await daysThatDiffer()).toEqual([]);
    const { rows } = await sql`SELECT FROM usage_by_day`.execute(db);
    expect(rows.length).toBeGreaterThan(10);
  });

  it.each(SUMS_TABLES)('finds and corrects what differs in $name', async (table) => {
    const announced = (change: typeof KEEPS_SUMS) =>
      db.transaction().execute(async (tx) => {
        await sql`SELECT ${KEEPS_SUMS}`.execute(tx);
        await change.execute(tx);
      });
    const name = sql.table(table.name);
    const { rows } =
      await sql`SELECT * FROM ${name} ORDER BY ${sql.ref(table.unit)}, group_sha256, shard`.execute(db);
    await announced(sql`UPDATE ${name} SET requests = requests + 1, cost_nano_usd = cost_nano_usd - 7`);
    await announced(sql`DELETE FROM ${name} WHERE principal_id = 'bob'`);
    expect((await rebuildBuckets(db, { apply: true })).differingHours).toBe(rows.length);
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject(CLEAN);
    expect(
      (await sql`SELECT * FROM ${name} ORDER BY ${sql.ref(table.unit)}, group_sha256, shard`.execute(db))
        .rows,
    ).toEqual(rows);
  });

  it('does not trust the days and totals of now once something changed the hours alone', async () => {
    expect(await readSumsSince(db)).toEqual({ days: new Date(0), totals: new Date(0) });
    // As a build that knows days and no totals.
    await db.transaction().execute(async (tx) => {
      await sql`SELECT set_config('weighbridge.keeps_days', 'on', true)`.execute(tx);
      await sql`UPDATE usage_by_hour SET errors = errors`.execute(tx);
    });
    const { days, totals } = await readSumsSince(db);
    expect(days).toEqual(new Date(0));
    expect(totals.getTime()).toBeGreaterThan(Date.now() + 86_400_000);
    expect(totals.getTime() % 86_400_000).toBe(0);
    await sql`UPDATE usage_by_hour SET errors = errors`.execute(db);
    expect(await readSumsSince(db)).toEqual({ days: totals, totals });
    await write(10);
    expect(await readSumsSince(db)).toEqual({ days: totals, totals });
  });

  it('only reports differences unless asked to apply them', async () => {
    const { bucket_key: bucketKey } = await db
      .selectFrom('spend_buckets')
      .select('bucket_key')
      .orderBy('bucket_key')
      .executeTakeFirstOrThrow();
    const add = (nano: bigint) =>
      sql`
      UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + ${nano} WHERE bucket_key = ${bucketKey}`.execute(
        db,
      );
    await add(9n);
    const found = {
      differing: [{ bucketKey, differenceNanoUsd: -9n }],
      differenceNanoUsd: 9n,
      differingBuckets: 1,
    };
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject(found);
    expect(await rebuildBuckets(db, { apply: true })).toMatchObject(found);
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject(CLEAN);
  });

  it('corrects all differences while usage is being written, without losing or doubling any', async () => {
    for (let round = 0; round < 4; round++) {
      await damage();
      let isWriting = true;
      const writers = Array.from({ length: 4 }, async () => {
        while (isWriting) await write(20);
      });
      const rebuilt = await rebuildBuckets(db, { apply: true });
      isWriting = false;
      await Promise.all(writers);
      expect(rebuilt.differingBuckets).toBeGreaterThan(2);
      expect(rebuilt.differingHours).toBeGreaterThan(2);
      expect(await rebuildBuckets(db, { apply: false })).toMatchObject({ ...CLEAN, events: BigInt(next) });
      await expectDerived();
    }
  });

  it('keeps opening balances, and the hours whose rows were dropped', async () => {
    await sql`UPDATE spend_buckets SET opening_nano_usd = 5, spent_nano_usd = spent_nano_usd + 5
              WHERE subject = 'policy'`.execute(db);
    await sql`UPDATE ledger_floor SET dropped_before = ${new Date(START)}`.execute(db);
    await sql`UPDATE usage_by_hour SET hour = hour - interval '1 day' WHERE principal_id = 'ada'`.execute(db);
    await rebuildBuckets(db, { apply: true });
    await expect(expectDerived()).rejects.toThrow();
    await sql`DELETE FROM usage_by_hour WHERE hour < ${new Date(START)}`.execute(db);
    await expectDerived();
  });

  it('is refused while another one is running', async () => {
    const inTheWay = await db.startTransaction().execute();
    await sql`LOCK TABLE usage_by_hour IN ACCESS EXCLUSIVE MODE`.execute(inTheWay);
    const first = rebuildBuckets(db, { apply: true });
    const isWaiting = sql<{ is: boolean }>`
      SELECT count(*) > 0 AS is FROM pg_locks WHERE NOT granted AND relation = 'usage_by_hour'::regclass`;
    while (!(await isWaiting.execute(db)).rows[0]?.is);
    await expect(rebuildBuckets(db, { apply: false })).rejects.toThrow(RebuildRunningError);
    await inTheWay.rollback().execute();
    await first;
    expect(await rebuildBuckets(db, { apply: false })).toMatchObject(CLEAN);
  });
});
