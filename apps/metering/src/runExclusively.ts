import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';

/** Runs something, unless another worker that holds this advisory lock runs it. */
export async function runExclusively(db: Database, lock: number, run: () => Promise<void>): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // This connection is idle while others are in use, for longer than the server may allow by default.
    await sql`SET LOCAL idle_in_transaction_session_timeout = 0`.execute(tx);
    const { rows } = await sql<{ taken: boolean }>`
      SELECT pg_try_advisory_xact_lock(${lock}) AS taken`.execute(tx);
    if (rows[0]?.taken) await run();
  });
}
