import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { limitedPause } from './limitPause.ts';

/** Any number that no other advisory lock uses. */
const COUNTERS_LOCK = 7_306_912_554;
/** Who starts a counter does more between two statements, and does it rarely. */
const EXCLUSIVE_PAUSE_MS = 10_000;

/**
 * Holds off new counters while usage is written: a writer of usage takes the lock shared, a transaction that starts a counter
 * takes it exclusively, both until the transaction ends. So each event is either in the ledger before the new counter adds it
 * up, or its writer sees the new counter. It isn't a lock on the policy's row, because a steady flow of writers there could
 * keep a change waiting forever. From here on the transaction may not pause for long, since all lease calls may wait for it.
 */
export async function lockCounters(tx: Tx, mode: 'shared' | 'exclusive'): Promise<void> {
  await (mode === 'shared'
    ? sql`SELECT pg_advisory_xact_lock_shared(${COUNTERS_LOCK}), ${limitedPause()}`
    : sql`SELECT pg_advisory_xact_lock(${COUNTERS_LOCK}), ${limitedPause(EXCLUSIVE_PAUSE_MS)}`
  ).execute(tx);
}
