import { type Archive, countersName, manifestName } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { type Retention, retainedFrom } from './partitions.ts';

/** Of one run, so that it ends. */
const MAX_DAYS = 50;

interface Day {
  readonly day: Date;
  readonly rows: bigint;
  readonly cost: string;
}

/**
 * Deletes archived days that ended before the retention period, and records each in the audit log. Their sums stay in counters and
 * reports by day. Returns the days. In this order, so that no reader looks for a file that is gone: readers forget the days, the
 * files go, the manifests go.
 */
export async function pruneArchive(db: Database, archive: Archive, retention: Retention): Promise<Date[]> {
  const from = await retainedFrom(db, retention);
  await sql`
    UPDATE ledger_floor
    SET archive_from = greatest(archive_from, least(date_trunc('day', ${from}::timestamptz, 'UTC'), dropped_before))
    WHERE archive_from IS NOT NULL`.execute(db);
  const { rows: outdated } = await sql<Day>`
    SELECT day, rows, cost_nano_usd::text AS cost FROM ledger_archive_days
    WHERE day < (SELECT archive_from FROM ledger_floor) ORDER BY day LIMIT ${MAX_DAYS}`.execute(db);
  for (const day of outdated) await pruneDay(db, archive, day, retention.now);
  await sql`
    DELETE FROM late_usage WHERE event_id < (SELECT uuid_from(archive_from) FROM ledger_floor)`.execute(db);
  return outdated.map(({ day }) => day);
}

async function pruneDay(db: Database, archive: Archive, { day, rows, cost }: Day, now: Date): Promise<void> {
  const { rows: files } = await sql<{ name: string }>`
    SELECT name FROM ledger_archive_files WHERE day = ${day}`.execute(db);
  // The manifest first: without it, others know that the day is not whole.
  for (const name of [manifestName(day), countersName(day), ...files.map((file) => file.name)]) {
    await archive.store.remove(name);
  }
  await db.transaction().execute(async (tx) => {
    await sql`DELETE FROM ledger_archive_files WHERE day = ${day}`.execute(tx);
    await sql`DELETE FROM ledger_archive_days WHERE day = ${day}`.execute(tx);
    await sql`
      INSERT INTO audit_log (at, actor_principal_id, action, resource_id, detail)
      VALUES (${now}, 'metering', 'ledger.archived_day_deleted', ${day.toISOString().slice(0, 10)},
        ${JSON.stringify({ rows: Number(rows), cost_nano_usd: cost, files: files.length })}::jsonb)`.execute(
      tx,
    );
  });
}
