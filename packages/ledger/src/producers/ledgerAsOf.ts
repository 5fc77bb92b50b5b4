import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/**
 * As SQL: up to when all usage is known to be in the ledger. That is the least mark of the producers that may still hand
 * something over; with none of them, the statement's own time. What is closed holds nothing back; what is lost or retired
 * would hold it back for ever, and shows as incomplete instead.
 */
export const LEDGER_AS_OF = sql<Date>`least(
  (SELECT min(mark_at) FROM producers WHERE state = 'open'), statement_timestamp())`;

/** Up to when the ledger is known to have events. Read it before what it is said of, so that it never says too much. */
export async function ledgerAsOf(db: Database): Promise<Date> {
  const { rows } = await sql<{ as_of: Date }>`SELECT ${LEDGER_AS_OF} AS as_of`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM answered no row');
  return row.as_of;
}
