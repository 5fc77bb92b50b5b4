import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { useSimulatedDays } from '../../test/simulatedDays.ts';
import { compareNewDays } from './compareNewDays.ts';

const DAYS = 365;
const ledger = useSimulatedDays(DAYS);
const CLEAN = { differingBuckets: 0, differingHours: 0 };

/** How many rows of the ledger were read until now. */
async function rowsRead(): Promise<number> {
  await sql`SELECT pg_stat_force_next_flush()`.execute(ledger.db);
  const { rows } = await sql<{ read: number }>`
    SELECT sum(seq_tup_read + idx_tup_fetch)::float8 AS read
    FROM pg_stat_user_tables WHERE relname LIKE 'usage\\_events\\_%'`.execute(ledger.db);
  return rows[0]?.read ?? 0;
}

it('of a year, the first night reads all rows, the second those of the new day, and later ones a thirtieth more', async () => {
  const { db, at, record, usageOf } = ledger;
  const night = (day: number, recheckRuns = Number.POSITIVE_INFINITY) =>
    compareNewDays(db, { now: at(day, 3), recheckRuns });
  expect(await night(DAYS)).toMatchObject({ ...CLEAN, events: BigInt(4 * DAYS) });
  await record(usageOf(DAYS, 7));
  await record(usageOf(DAYS + 1, 2));
  const before = await rowsRead();
  expect(await night(DAYS + 1)).toMatchObject({ ...CLEAN, days: 1, events: 9n });
  // These, and those of the day before in the same part of an index, for each of the buckets, the sums and the count.
  expect((await rowsRead()) - before).toBeLessThanOrEqual(3 * 2 * (9 + 4));
  const { days, events } = await night(DAYS + 1, 30);
  expect(days).toBeLessThanOrEqual(Math.ceil((DAYS + 60) / 30));
  expect(Number(events)).toBeLessThanOrEqual(4 * days + 9);
});
