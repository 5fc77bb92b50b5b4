import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** As SQL: when the newest event of the ledger was settled; the statement's own time where the ledger is empty. */
export const LEDGER_AS_OF = sql<Date>`coalesce(
  -- Event ids are UUIDv7: the greatest is the newest.
  (SELECT settled_at FROM usage_events ORDER BY event_id DESC LIMIT 1), statement_timestamp())`;

/** Up to when the ledger is known to have events. Read it before what it is said of, so that it never says too much. */
export async function ledgerAsOf(db: Database): Promise<Date> {
  const { rows } = await sql<{ as_of: Date }>`SELECT ${LEDGER_AS_OF} AS as_of`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM answered no row');
  return row.as_of;
}
