import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { eventually } from './eventually.ts';

/** Resolves when `count` transactions of the database wait for a table or row lock. Rejects after 5 s. */
export async function untilLockWaits(db: Database, count = 1): Promise<void> {
  await eventually(async () => {
    const { rows } = await sql<{ pid: number }>`
      SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE NOT granted AND datname = current_database()`.execute(db);
    if (rows.length < count) throw new Error(`${rows.length} of ${count} transactions wait for a lock`);
  });
}
