import { randomBytes } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import { type TestDatabase, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { beforeAll, beforeEach } from 'vitest';
import type { ReceivedRange, UsageToRecord } from '../src/events/usage.ts';

/** A database per test file, empty before each test, with a partition for the events of the tests (November 2026). */
export function useLedger(): Pick<TestDatabase, 'url' | 'db'> {
  const database = useDatabase();
  beforeAll(() => openMonth(database.db, new Date('2026-11-10T12:00:00Z')));
  beforeEach(async () => {
    await sql`TRUNCATE usage_events, spend_buckets, spend_by_month, budget_leases, usage_by_hour, usage_by_day,
      usage_totals_by_hour, usage_totals_by_day, usage_attributions, usage_attribution_days, ledger_days,
      ledger_day_buckets, ledger_day_changes, producers, producer_shards, quarantined_usage, appended_spend,
      thresholds_due`.execute(database.db);
    // As on a new database: the sums have all usage.
    await sql`UPDATE usage_by_day_since SET since = ${new Date(0)}, totals_since = ${new Date(0)}`.execute(
      database.db,
    );
  });
  return database;
}

/** Creates the partitions from the month of `at` to the current one, in either order. */
export async function openMonth(db: Database, at: Date): Promise<void> {
  await sql`
    SELECT create_usage_partition(month AT TIME ZONE 'UTC')
    FROM generate_series(
      least(date_trunc('month', ${at}::timestamptz AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC')),
      greatest(${at}::timestamptz AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'), '1 month') AS month`.execute(
    db,
  );
}

/** Usage with only these events, of no producer. */
export function eventsOnly(events: UsageToRecord['events']): UsageToRecord {
  return { events, refused: [], received: [] };
}

/** Usage with only these received numbers. */
export function rangesOnly(...received: ReceivedRange[]): UsageToRecord {
  return { events: [], refused: [], received };
}

/** A UUIDv7 with a given time. */
export function uuidAt(at: Date): string {
  const ms = at.getTime().toString(16).padStart(12, '0');
  const random = randomBytes(8).toString('hex');
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${random.slice(0, 3)}-8${random.slice(3, 6)}-${random.slice(4)}`;
}
