import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

const ROWS_AT_A_TIME = 50_000;
/** No window is longer than 90 days. */
const LONGEST_WINDOW_MS = 91 * 86_400_000;

/**
 * Deletes starts of windows from before the ledger's rows, which those of a later window don't need. At most 50,000 rows; call it again
 * for the rest.
 */
export async function pruneWindowStarts(db: Database, now: Date): Promise<void> {
  await sql`
    DELETE FROM window_starts WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM window_starts
      WHERE started_at < (SELECT dropped_before FROM ledger_floor)
        AND started_at < ${new Date(now.getTime() - LONGEST_WINDOW_MS)}
      LIMIT ${ROWS_AT_A_TIME}
    ))`.execute(db);
}
