import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { addToLeased } from '../buckets/addToLeased.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { NOT_MERGED } from '../buckets/unmerged.ts';
import { lockedLeaseOf } from './leaseOf.ts';
import { lockBuckets } from './readLeases.ts';

/** Batches and lease calls wait for the buckets of a portion. */
const LEASES_PER_PORTION = 500;
const PORTIONS = 100;

interface Epoch {
  readonly producerId: string;
  readonly epoch: string;
}

/**
 * Closes leases of closed epochs, in portions: the ledger has all of their spend, so the rest is returned to the buckets. Until then
 * it stays leased, which gives headroom late and never early. Its spend is merged first, so that a counter's row alone never shows less
 * than was spent and is held. While usage of an epoch is in quarantine, its leases go on holding what
 * was reserved for it, until an operator decides. Returns whether there may be more to close.
 */
export async function closeLeases(db: Database, portions: number = PORTIONS): Promise<boolean> {
  for (let done = 0; done < portions; done++) {
    const epoch = await findClosedEpoch(db);
    // Another worker closes the leases of this one.
    if (!epoch || !(await closePortion(db, epoch))) return false;
  }
  return true;
}

/** The epoch that was closed first, of those whose leases are not. */
async function findClosedEpoch(db: Database): Promise<Epoch | undefined> {
  const { rows } = await sql<Epoch>`
    SELECT producer_id AS "producerId", epoch FROM producers
    WHERE state = 'closed' AND leases = 'open' AND NOT EXISTS (
      SELECT FROM quarantined_usage AS held
      WHERE held.state = 'held' AND held.producer_id = producers.producer_id AND held.epoch = producers.epoch
    ) AND NOT EXISTS (
      SELECT FROM appended_spend AS appended
      WHERE ${NOT_MERGED} AND appended.producer_id = producers.producer_id AND appended.epoch = producers.epoch
    )
    ORDER BY ended_at LIMIT 1`.execute(db);
  return rows[0];
}

export interface ClosedLease extends Epoch {
  readonly bucketKey: string;
}

/**
 * Closes at most so many leases of a closed epoch, and records if these were the last. Undefined if another worker does. A lease call
 * locks its epoch's row, so after the commit that closed an epoch every grant is visible, and none follows.
 */
export async function closePortion(
  db: Database,
  { producerId, epoch }: Epoch,
  most: number = LEASES_PER_PORTION,
): Promise<ClosedLease[] | undefined> {
  return await db.transaction().execute(async (tx) => {
    // 1. From here to the commit, no counter is started, which would take leases over.
    await lockCounters(tx, 'shared');
    if (!(await tryLockEpoch(tx, epoch))) return undefined;
    const { rows } = await sql<{ bucket_key: string; also_bucket_key: string | null }>`
      SELECT bucket_key, also_bucket_key FROM budget_leases
      WHERE producer_id = ${producerId} AND epoch = ${epoch} AND NOT closed
        AND (SELECT state FROM producers WHERE producer_id = ${producerId} AND epoch = ${epoch}) = 'closed'
      LIMIT ${most}`.execute(tx);
    // 2. Lock the buckets, by key, as every writer does.
    await lockBuckets(
      tx,
      rows.flatMap((row) => [row.bucket_key, ...(row.also_bucket_key ? [row.also_bucket_key] : [])]),
    );
    // 3. Close the leases, and return what they hold.
    const keys = rows.map((row) => row.bucket_key);
    if (keys.length > 0) await returnHolds(tx, { producerId, epoch }, keys);
    // 4. Last, as writers lock producers after buckets.
    if (keys.length < most) {
      await sql`
        UPDATE producers SET leases = 'closed'
        WHERE producer_id = ${producerId} AND epoch = ${epoch} AND state = 'closed' AND leases = 'open'`.execute(
        tx,
      );
    }
    return keys.map((bucketKey) => ({ producerId, epoch, bucketKey }));
  });
}

async function tryLockEpoch(tx: Tx, epoch: string): Promise<boolean> {
  const { rows } = await sql<{ taken: boolean }>`
    SELECT pg_try_advisory_xact_lock(hashtextextended(${`leases of ${epoch}`}, 0)) AS taken`.execute(tx);
  return rows[0]?.taken === true;
}

async function returnHolds(tx: Tx, { producerId, epoch }: Epoch, keys: readonly string[]): Promise<void> {
  await sql`
    WITH held AS MATERIALIZED (
      SELECT lease.*
      FROM (
        SELECT bucket_key, ${producerId}::uuid AS producer_id, ${epoch}::uuid AS epoch
        FROM unnest(${arrayLiteral(keys)}::text[]) AS bucket_key
      ) AS ended
      CROSS JOIN LATERAL (${lockedLeaseOf('ended')}) AS lease
      WHERE NOT lease.closed
    ), closed AS (
      -- Each row exists, and is locked. A conflict finds it by its key.
      INSERT INTO budget_leases (bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd)
      SELECT bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd FROM held
      ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE SET closed = true
    ), freed AS (
      SELECT key AS bucket_key, -sum(hold_nano_usd)::bigint AS nano_usd
      FROM held CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
      WHERE key IS NOT NULL AND hold_nano_usd > 0
      GROUP BY key
    )
    ${addToLeased('freed')}`.execute(tx);
}
