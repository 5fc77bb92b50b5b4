import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Any number that no other advisory lock uses. A rebuild holds it too. */
const LEDGER_MAINTENANCE_LOCK = 2_955_070_317;

/** Until the transaction ends, no other one changes opening balances or compares buckets with the ledger's rows. */
export async function lockLedgerMaintenance(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${LEDGER_MAINTENANCE_LOCK})`.execute(tx);
}

/** Another rebuild or comparison is running on this database, or a month of the ledger is being dropped. */
export class RebuildRunningError extends Error {
  constructor() {
    super(
      'Another rebuild of the ledger is running, or one of its months is being dropped. Retry when it is done.',
    );
    this.name = 'RebuildRunningError';
  }
}

/**
 * Runs something on one connection, while nothing else changes opening balances or compares. Throws `RebuildRunningError` if
 * something does.
 */
export async function withLedgerMaintenance<T>(
  db: Database,
  run: (connection: Database) => Promise<T>,
): Promise<T> {
  return await db.connection().execute(async (connection) => {
    const { rows } = await sql<{ taken: boolean }>`
      SELECT pg_try_advisory_lock(${LEDGER_MAINTENANCE_LOCK}) AS taken`.execute(connection);
    if (!rows[0]?.taken) throw new RebuildRunningError();
    try {
      return await run(connection);
    } finally {
      await sql`SELECT pg_advisory_unlock(${LEDGER_MAINTENANCE_LOCK})`.execute(connection);
    }
  });
}
