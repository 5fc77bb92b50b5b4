import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

const ROWS_AT_A_TIME = 50_000;

/**
 * Deletes which values of callers have sums of their own on days whose rows were dropped: no usage of them is recorded any more, and
 * nothing is compared. At most 50,000 rows of each table; call it again for the rest.
 */
export async function pruneAttributions(db: Database): Promise<void> {
  for (const name of ['usage_attributions', 'usage_attribution_days'] as const) {
    const table = sql.table(name);
    await sql`
      DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ${table} WHERE day < (SELECT dropped_before FROM ledger_floor) LIMIT ${ROWS_AT_A_TIME}
      ))`.execute(db);
  }
}
