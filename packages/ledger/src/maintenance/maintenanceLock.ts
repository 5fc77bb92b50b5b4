import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Any number that no other advisory lock of the database has; a rebuild holds it too. */
export const LEDGER_MAINTENANCE_LOCK = 2_955_070_317;

/** Until the transaction ends, nobody else moves what buckets opened with, or compares them with the ledger's rows. */
export async function lockLedgerMaintenance(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${LEDGER_MAINTENANCE_LOCK})`.execute(tx);
}
