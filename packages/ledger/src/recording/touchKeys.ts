import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import type { LedgerEvent } from '../events/usage.ts';

/** How far `last_used_at` may lag behind the traffic. */
const BEHIND_SECONDS = 30;

/**
 * Updates `last_used_at` of the events' keys to their newest admission, at most once per key and half minute. This is not a
 * mutation of the key: neither `updated_at` nor the revision changes. It runs outside the ledger's transaction, so that usage
 * never waits for an operator who edits a key. Call it before the events are acknowledged.
 */
export async function touchKeys(db: Database, events: readonly LedgerEvent[], now: Date): Promise<void> {
  const newest = new Map<string, number>();
  for (const { row } of events) {
    // The clock of a proxy may be ahead.
    const at = Math.min(new Date(row.admitted_at).getTime(), now.getTime());
    newest.set(row.key_id, Math.max(at, newest.get(row.key_id) ?? at));
  }
  if (newest.size === 0) return;
  const times = [...newest.values()].map((ms) => new Date(ms).toISOString());
  // Locked in the order of ids, so that two shards with the same keys never deadlock.
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
