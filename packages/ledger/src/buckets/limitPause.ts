import type { Tx } from '@weighbridge/database';
import { type RawBuilder, sql } from 'kysely';

/**
 * How long a transaction that others wait for may pause between two statements: half of the time that a lease call has. Its
 * process may be frozen, or its host gone, and Postgres would keep its locks until the connection breaks, which takes hours.
 */
const MAX_PAUSE_MS = 1_000;

/**
 * For the first statement that locks: Postgres ends the transaction, and frees its locks, if it pauses for longer than this, or than its
 * connection's `weighbridge.max_pause_ms`: tests that call the ledger themselves would not try again as metering does.
 */
export function limitedPause(ms = MAX_PAUSE_MS): RawBuilder<unknown> {
  return sql`set_config('idle_in_transaction_session_timeout',
    coalesce(nullif(current_setting('weighbridge.max_pause_ms', true), ''), ${String(ms)}), true)`;
}

/** For a transaction whose first statement can't carry it. */
export async function limitPause(tx: Tx): Promise<void> {
  await sql`SELECT ${limitedPause()}`.execute(tx);
}
