import { createDb, type Database } from '@weighbridge/database';
import { addEvidence } from '@weighbridge/evidence';
import { decodeBatch, readIdRange, recordUsage } from '@weighbridge/ledger';
import { createTestDatabase, type TestRun } from '@weighbridge/testing';
import { sql } from 'kysely';
import { type GeneratedEvent, generateBatches } from '../shared/generateUsage.ts';

/** A migrated database, dropped at the end. */
export async function withLedger<Result>(
  run: TestRun,
  use: (db: Database, url: string) => Promise<Result>,
): Promise<Result> {
  const { url, drop } = await createTestDatabase(run);
  const db = openLedger(url);
  try {
    return await use(db, url);
  } finally {
    await db.destroy();
    await drop();
  }
}

/** Opens its own connections: none has plans that were made before. */
export function openLedger(url: string): Database {
  return createDb(url, { applicationName: 'bench scale', onIdleError: () => {} });
}

export interface Recording {
  readonly producers: number;
  readonly eventsPerBatch: number;
  /** By default, the time of the first event. */
  readonly now?: Date;
}

/** Records them through the ledger's own writer, one batch after the other. Returns each batch's milliseconds for an event. */
export async function record(
  db: Database,
  events: readonly GeneratedEvent[],
  { now = events[0]?.at ?? new Date(), ...how }: Recording,
): Promise<number[]> {
  const ids = await readIdRange(db);
  const times: number[] = [];
  for (const { payload, count } of generateBatches(events, how)) {
    const decoded = decodeBatch(payload, ids);
    const began = performance.now();
    await recordUsage(db, decoded, now, { lastStep: addEvidence });
    times.push((performance.now() - began) / count);
  }
  return times;
}

/** For usage since then. */
export async function openMonths(db: Database, from: Date): Promise<void> {
  await sql`
    SELECT create_usage_partition(month AT TIME ZONE 'UTC')
    FROM generate_series(date_trunc('month', ${from}::timestamptz AT TIME ZONE 'UTC'), now() AT TIME ZONE 'UTC', '1 month')
      AS month`.execute(db);
}
