import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Any number that no other advisory lock uses. A rebuild holds it too. */
export const LEDGER_MAINTENANCE_LOCK = 2_955_070_317;

/** Until the transaction ends, no other one changes opening balances or compares buckets with the ledger's rows. */
export async function lockLedgerMaintenance(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${LEDGER_MAINTENANCE_LOCK})`.execute(tx);
}
