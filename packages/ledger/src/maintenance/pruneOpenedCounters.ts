import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

const ROWS_AT_A_TIME = 50_000;
/** No window is longer; and nothing is opened in one that ended. */
const RETAINED_MS = 40 * 86_400_000;

/** Deletes how many counters keys opened in windows that ended, but for windows that never do. At most 50,000 rows; call it again for the rest. */
export async function pruneOpenedCounters(db: Database, now: Date): Promise<void> {
  await sql`
    DELETE FROM opened_counters WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM opened_counters
      WHERE window_start > 'epoch' AND window_start < ${new Date(now.getTime() - RETAINED_MS)}
      LIMIT ${ROWS_AT_A_TIME}
    ))`.execute(db);
}
