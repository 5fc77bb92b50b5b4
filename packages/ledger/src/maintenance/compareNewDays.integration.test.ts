import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { eventId } from '../../test/events.ts';
import { useSimulatedDays } from '../../test/simulatedDays.ts';
import { recordCorrection } from '../requests/corrections.ts';
import { KEEPS_SUMS, SUMS_TABLES } from '../spend/usageSums.ts';
import { compareNewDays } from './compareNewDays.ts';
import { foldWindows } from './foldWindows.ts';
import { maintainPartitions } from './partitions.ts';
import { rebuildBuckets } from './rebuild.ts';

const DAY_MS = 86_400_000;
const DAYS = 34;
const CLEAN = { differingBuckets: 0, differingHours: 0, differenceNanoUsd: 0n };
const NO_RECHECK = Number.POSITIVE_INFINITY;
const ledger = useSimulatedDays(DAYS);
const { at, usageOf, record } = ledger;
/** The tests go on from night to night: this day's at 3:00 is the next. */
let today = DAYS;

const night = (recheckRuns = NO_RECHECK) => compareNewDays(ledger.db, { now: at(today, 3), recheckRuns });
/** As a fault of this release: nobody notices it. */
const unnoticed = (change: typeof KEEPS_SUMS) =>
  ledger.db.transaction().execute(async (tx) => {
    await sql`SELECT ${KEEPS_SUMS}`.execute(tx);
    await change.execute(tx);
  });

/** Night after night until one finds a difference, or `nights` have passed without. */
async function nightsUntilFound(nights: number, recheckRuns: number): Promise<number | undefined> {
  for (let n = 1; n <= nights; n++) {
    today += 1;
    const { differingBuckets, differingHours } = await night(recheckRuns);
    if (differingBuckets + differingHours > 0) return n;
  }
  return undefined;
}
/** What it leaves, the last test compares. */
const repair = async () => {
  expect(await rebuildBuckets(ledger.db, { apply: true })).not.toMatchObject(CLEAN);
};

it('reads all days in the first night, and no day twice', async () => {
  expect(await night()).toMatchObject({ ...CLEAN, events: BigInt(DAYS * 4) });
  expect(await night()).toMatchObject({ ...CLEAN, days: 0, events: 0n });
});

it('reads a verified day again once late usage came for it, and finds what its buckets lack', async () => {
  today += 1;
  await record([{ ...usageOf(20)[0], cost: 1_000n }]);
  expect(await night()).toMatchObject({ ...CLEAN, days: 2 });
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
  await record([{ ...usageOf(21)[0], cost: 1_000n }]);
  await sql`UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd - 1000 WHERE subject = 'policy'`.execute(
    ledger.db,
  );
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  await repair();
});

it('reads the day of a corrected attempt again', async () => {
  expect(await nightsUntilFound(1, NO_RECHECK)).toBeUndefined();
  const correct = (correctionId: string) =>
    ledger.db.transaction().execute((tx) =>
      recordCorrection(tx, {
        correctionId,
        requestId: 'req_1',
        amountNanoUsd: 5n,
        reason: 'test',
        now: new Date(),
      }),
    );
  await correct(eventId(9_000_000, at(today, 1)));
  expect(await night()).toMatchObject({ ...CLEAN, days: 1 });
  await correct(eventId(9_000_001, at(today, 1)));
  await unnoticed(
    sql`UPDATE usage_by_hour SET cost_nano_usd = cost_nano_usd - 5 WHERE hour < ${at(1, 0)} AND cost_nano_usd > 5`,
  );
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  await repair();
});

it('finds at once what differs on a new day, and in a bucket of any', async () => {
  expect(await nightsUntilFound(1, NO_RECHECK)).toBeUndefined();
  await record(usageOf(today));
  await unnoticed(sql`UPDATE usage_totals_by_day SET requests = requests + 1 WHERE day = ${at(today, 0)}`);
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  // Until it is corrected, it is found each night.
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  await repair();
  await sql`UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 3 WHERE subject = 'policy'`.execute(
    ledger.db,
  );
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  await repair();
});

it('trusts the sums of a verified day, and reads it again once a rebuild has corrected them', async () => {
  expect(await nightsUntilFound(1, NO_RECHECK)).toBeUndefined();
  await unnoticed(sql`UPDATE usage_by_day SET errors = errors + 1 WHERE day = ${at(5, 0)}`);
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
  await repair();
  expect(await night()).toMatchObject({ ...CLEAN, days: 1 });
});

it('reads all days after someone changed sums without saying which, such as an earlier release', async () => {
  expect(await nightsUntilFound(1, NO_RECHECK)).toBeUndefined();
  const since = { since: new Date(0), totals_since: new Date(0), unannounced_at: new Date(0) };
  for (const { name } of SUMS_TABLES) {
    // As if the last time were long ago.
    await ledger.db.updateTable('usage_by_day_since').set(since).execute();
    expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
    await sql`UPDATE ${sql.table(name)} SET errors = errors`.execute(ledger.db);
    const noticed = await ledger.db.selectFrom('usage_by_day_since').selectAll().executeTakeFirstOrThrow();
    expect(noticed.unannounced_at.getTime()).toBeGreaterThan(0);
  }
  expect((await night()).days).toBeGreaterThanOrEqual(DAYS);
  // An hour later, the days that were read since are trusted.
  await ledger.db.updateTable('usage_by_day_since').set(since).execute();
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
});

it('reads each verified day again within the given number of nights, and so finds a row that was changed by hand', async () => {
  await sql`UPDATE usage_events SET cost_nano_usd = cost_nano_usd + 11 WHERE event_id = (
    SELECT event_id FROM usage_events WHERE event_id >= uuid_from(${at(15, 0)}) ORDER BY event_id LIMIT 1)`.execute(
    ledger.db,
  );
  expect(await nightsUntilFound(3, NO_RECHECK)).toBeUndefined();
  expect(await nightsUntilFound(30, 30)).toBeGreaterThan(1);
  await repair();
  expect(await nightsUntilFound(2, NO_RECHECK)).toBeUndefined();
});

it('reports no difference that only its kept sums have', async () => {
  await record(usageOf(20));
  await sql`DELETE FROM ledger_day_changes`.execute(ledger.db);
  expect(await nightsUntilFound(1, NO_RECHECK)).toBeUndefined();
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
});

it('counts what verified days have of folded windows in their months, and late usage too', async () => {
  // All windows, whenever they end.
  const before = new Date('2200-01-01T00:00:00Z');
  await foldWindows(ledger.db, { leasesBefore: before, foldBefore: before });
  const months = await ledger.db.selectFrom('spend_by_month').select('month').execute();
  expect(months.length).toBeGreaterThan(0);
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
  await record(usageOf(20));
  expect(await night()).toMatchObject({ ...CLEAN, days: 1 });
  await sql`UPDATE spend_by_month SET spent_nano_usd = spent_nano_usd + 3 WHERE subject = 'policy'`.execute(
    ledger.db,
  );
  expect(await nightsUntilFound(1, NO_RECHECK)).toBe(1);
  await repair();
});

it('forgets the days of a month that is dropped, and reads no others', async () => {
  const dropped = await maintainPartitions(ledger.db, {
    now: new Date(),
    retentionDays: Math.floor((Date.now() - at(33).getTime()) / DAY_MS),
  });
  expect(dropped.length).toBeGreaterThan(0);
  expect(await night()).toMatchObject({ ...CLEAN, days: 0 });
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject(CLEAN);
  const { rows } =
    await sql`SELECT FROM ledger_day_buckets WHERE day < (SELECT dropped_before FROM ledger_floor)`.execute(
      ledger.db,
    );
  expect(rows).toEqual([]);
});
