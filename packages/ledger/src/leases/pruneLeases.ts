import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/**
 * Deletes leases that hold nothing and never will again: those of windows or closed epochs that ended before a time. What a lost
 * proxy's lease holds stays, since only its events may reduce it.
 */
export async function pruneLeases(
  db: Database,
  { endedBefore }: { readonly endedBefore: Date },
): Promise<void> {
  await sql`
    DELETE FROM budget_leases AS lease
    WHERE lease.hold_nano_usd = 0 AND (
      lease.window_end < ${endedBefore}
      OR lease.closed AND EXISTS (
        SELECT FROM producers AS producer
        WHERE producer.producer_id = lease.producer_id AND producer.epoch = lease.epoch
          AND producer.ended_at < ${endedBefore}
      )
    )`.execute(db);
}
