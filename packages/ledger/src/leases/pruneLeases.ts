import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { limitPause } from '../buckets/limitPause.ts';
import { lockedLeaseOf } from './leaseOf.ts';
import { lockBuckets } from './readLeases.ts';

const LEASES_PER_PORTION = 500;
const PORTIONS = 20;

/**
 * Deletes the leases of epochs that were closed before a time, in portions: they hold nothing and never will again. What a lost
 * proxy's lease holds stays, since only its events may reduce it. Returns whether there may be more to delete.
 */
export async function pruneLeases(
  db: Database,
  { closedBefore, portions = PORTIONS }: { readonly closedBefore: Date; readonly portions?: number },
): Promise<boolean> {
  for (let done = 0; done < portions; done++) {
    const { rows } = await sql<{ producer_id: string; epoch: string }>`
      SELECT producer_id, epoch FROM producers
      WHERE state = 'closed' AND leases = 'closed' AND ended_at < ${closedBefore}
      ORDER BY ended_at LIMIT 1`.execute(db);
    const [ended] = rows;
    if (!ended) return false;
    await db.transaction().execute((tx) => prunePortion(tx, ended));
  }
  return true;
}

async function prunePortion(
  tx: Tx,
  { producer_id, epoch }: { readonly producer_id: string; readonly epoch: string },
): Promise<void> {
  await limitPause(tx);
  const { rows } = await sql<{ bucket_key: string }>`
    SELECT bucket_key FROM budget_leases
    WHERE producer_id = ${producer_id} AND epoch = ${epoch} LIMIT ${LEASES_PER_PORTION}`.execute(tx);
  const keys = rows.map((row) => row.bucket_key);
  // A lease call that has read a lease writes it before the lock is free.
  await lockBuckets(tx, keys);
  // By their places: a condition on the holder may lead to all of its leases, for each portion.
  const { numAffectedRows = 0n } = await sql`
    DELETE FROM budget_leases WHERE ctid = ANY (ARRAY(
      SELECT lease.tid
      FROM (
        SELECT bucket_key, ${producer_id}::uuid AS producer_id, ${epoch}::uuid AS epoch
        FROM unnest(${arrayLiteral(keys)}::text[]) AS bucket_key
      ) AS ended
      CROSS JOIN LATERAL (${lockedLeaseOf('ended')}) AS lease
      WHERE lease.closed
    ))`.execute(tx);
  if (rows.length === LEASES_PER_PORTION && numAffectedRows > 0n) return;
  // One that is not closed, or has moved since, is for `closeLeases` first.
  const leases = numAffectedRows < rows.length ? 'open' : 'deleted';
  await sql`
    UPDATE producers SET leases = ${leases} WHERE producer_id = ${producer_id} AND epoch = ${epoch}`.execute(
    tx,
  );
}

/**
 * Deletes at most so many leases that hold nothing of these buckets, which are locked and whose windows ended long ago. Returns how many.
 */
export async function pruneLeasesOf(tx: Tx, keys: readonly string[], most: number): Promise<number> {
  if (keys.length === 0) return 0;
  const { numAffectedRows = 0n } = await sql`
    DELETE FROM budget_leases WHERE ctid = ANY (ARRAY(
      SELECT lease.tid
      FROM unnest(${arrayLiteral(keys)}::text[]) AS ended (bucket_key)
      -- For each bucket: a join may read all leases. OFFSET keeps it from becoming one.
      CROSS JOIN LATERAL (
        SELECT ctid AS tid FROM budget_leases AS of_bucket
        WHERE of_bucket.bucket_key = ended.bucket_key AND hold_nano_usd = 0 OFFSET 0
      ) AS lease
      LIMIT ${most}
    ))`.execute(tx);
  return Number(numAffectedRows);
}
