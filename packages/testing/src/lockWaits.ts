import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { eventually } from './eventually.ts';

/** On a busy machine, a transaction may take long until it gets to its lock. The test's own time-out comes first. */
const TIMEOUT_MS = 60_000;

/** Resolves when `count` transactions of the database wait for a table or row lock. */
export async function untilLockWaits(db: Database, count = 1): Promise<void> {
  const isWaiting = async () => {
    const { rows } = await sql<{ pid: number }>`
      SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE NOT granted AND datname = current_database()`.execute(db);
    if (rows.length < count) throw new Error(`${rows.length} of ${count} transactions wait for a lock`);
  };
  await eventually(isWaiting, { timeoutMs: TIMEOUT_MS });
}
