import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { LedgerEvent } from '../events/usage.ts';

/** How far `last_used_at` may stay behind the traffic. */
const BEHIND_SECONDS = 30;

/**
 * Brings `last_used_at` of the events' keys up to their newest admission: one write a key and half a minute, however
 * dense the traffic. It is no mutation of the key: neither `updated_at` nor the revision moves. Not in the ledger's
 * transaction, so that money never waits for somebody who edits a key; call it before the events are acknowledged.
 */
export async function touchKeys(db: Database, events: readonly LedgerEvent[], now: Date): Promise<void> {
  const newest = new Map<string, number>();
  for (const { row } of events) {
    // A proxy whose clock runs ahead must not set a key's last use into the future.
    const at = Math.min(new Date(row.admitted_at).getTime(), now.getTime());
    newest.set(row.key_id, Math.max(at, newest.get(row.key_id) ?? at));
  }
  if (newest.size === 0) return;
  const times = [...newest.values()].map((ms) => new Date(ms).toISOString());
  // Locked in the order of ids, so that two shards with the same keys wait for each other and never deadlock.
  await sql`
    WITH due AS (
      SELECT keys.id, used.at
      FROM keys JOIN unnest(${[...newest.keys()]}::text[], ${times}::timestamptz[]) AS used (id, at) USING (id)
      WHERE keys.last_used_at IS NULL OR keys.last_used_at < used.at - make_interval(secs => ${BEHIND_SECONDS})
      ORDER BY keys.id
      FOR NO KEY UPDATE OF keys
    )
    UPDATE keys SET last_used_at = greatest(keys.last_used_at, due.at) FROM due WHERE keys.id = due.id`.execute(
    db,
  );
}
