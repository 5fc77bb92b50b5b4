import type { Database } from '@weighbridge/database';
import { compareNewDays } from '@weighbridge/ledger';
import { sql } from 'kysely';
import { generateEvents } from '../shared/generateUsage.ts';
import type { Lane } from './lane.ts';
import { openMonths, record, withLedger } from './withLedger.ts';

const DAYS = 30;
const EVENTS_PER_DAY = 1_000;
const DAY_MS = 86_400_000;
/** So that none of the days is due again. */
const RECHECK_RUNS = 10_000;

/** The comparison of each night: what those of the days before add to it. */
export const newDay: Lane = {
  name: 'the nightly comparison',
  size: `${DAYS} earlier days of ${EVENTS_PER_DAY.toLocaleString('en-US')} events`,
  measure: (run, factor, onProgress) =>
    withLedger(run, async (db) => {
      const days = DAYS * factor;
      const begin = Math.floor(Date.now() / DAY_MS - days - 4) * DAY_MS;
      await openMonths(db, new Date(begin));
      const noon = (day: number) => new Date(begin + (day + 0.5) * DAY_MS);
      const addDays = async (from: number, to: number) => {
        for (let day = from; day < to; day++) await recordDay(db, noon(day), day);
        await sql`VACUUM ANALYZE`.execute(db);
        return await compare(db, noon(to));
      };
      // The first one warms up.
      await addDays(0, 1);
      const early = await addDays(1, 2);
      onProgress(`${days} days`);
      await addDays(2, days);
      onProgress('one more day');
      const late = await addDays(days, days + 1);
      return {
        'days read': late.days,
        'events read': late.events,
        'time, of that of the second day': late.ms / early.ms,
      };
    }),
};

async function recordDay(db: Database, now: Date, day: number): Promise<void> {
  const events = generateEvents(EVENTS_PER_DAY, now, day * EVENTS_PER_DAY);
  await record(db, events, { producers: 1, eventsPerBatch: EVENTS_PER_DAY });
}

async function compare(db: Database, now: Date) {
  const began = performance.now();
  const { days, events, differingBuckets, differingHours } = await compareNewDays(db, {
    now,
    recheckRuns: RECHECK_RUNS,
  });
  if (differingBuckets + differingHours > 0) throw new Error('the ledger differs from its sums');
  return { days, events: Number(events), ms: performance.now() - began };
}
