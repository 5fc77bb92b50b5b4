import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll } from 'vitest';
import { recordUsage } from '../src/recording/recordUsage.ts';
import { type EventFields, ledgerEvent } from './events.ts';
import { eventsOnly, openMonth } from './ledger.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Long ago, so that all simulated days are over, and the first of a month, so that no partition has days before. */
const FIRST = Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() - 15, 1);
const EACH_DAY = 4;

export interface SimulatedDays {
  readonly db: Database;
  /** A time of a day, which are numbered from 0. */
  at(day: number, hour?: number): Date;
  usageOf(day: number, count?: number): EventFields[];
  record(events: readonly EventFields[]): Promise<void>;
}

/** A database for a file of tests, with four events on each of so many days. */
export function useSimulatedDays(days: number): SimulatedDays {
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let db: Database;
  let next = 1;
  const at = (day: number, hour = 12) => new Date(FIRST + day * DAY_MS + hour * HOUR_MS);
  const usageOf = (day: number, count = EACH_DAY): EventFields[] =>
    Array.from({ length: count }, (_, n) => ({
      ...{ key: `key_${n % 3}`, cost: BigInt(n + 10), admittedAt: at(day, 1 + (n % 20)) },
      attribution: { user: `user ${n}` },
    }));
  const record = async (events: readonly EventFields[]) => {
    await recordUsage(db, eventsOnly(events.map((fields) => ledgerEvent(next++, fields))));
  };
  beforeAll(async () => {
    database = await createTestDatabase();
    // It reads by indexes, as it would in large tables.
    const url = `${database.url}?options=-c%20enable_seqscan%3Doff`;
    // One connection, whose statistics are flushed at once.
    db = createDb(url, { applicationName: 'test', maxConnections: 1, onIdleError: () => {} });
    await openMonth(db, at(0));
    for (let day = 0; day < days; day += 50) {
      const some = Array.from({ length: Math.min(50, days - day) }, (_, n) => day + n);
      await record(some.flatMap((one) => usageOf(one)));
    }
  });
  afterAll(async () => {
    await db.destroy();
    await database.drop();
  });
  return {
    get db() {
      return db;
    },
    at,
    usageOf,
    record,
  };
}
