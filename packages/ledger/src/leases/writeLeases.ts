import {
  type BucketRef,
  type BucketState,
  bucketKey,
  type LeaseFigures,
  type LeaseOutcome,
  windowStartOf,
} from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';

export interface LeaseChange {
  readonly key: string;
  /** The bucket of a newer counter that the lease holds in as well. */
  readonly newer: (BucketState & { readonly key: string }) | undefined;
  readonly windowEnd: Date | null;
  readonly bucket: BucketState;
  /** The bucket with the policy's current limit. */
  readonly updated: BucketState;
  /** Undefined: the holder had no lease yet. */
  readonly before: LeaseFigures | undefined;
  readonly lease: LeaseFigures;
  /** Less than the grant if more was spent than had been granted before. */
  readonly addedHold: NanoUsd;
  readonly outcome: LeaseOutcome;
}

/**
 * Writes leases and what they hold of their buckets, which are locked. Each update of a bucket checks the limit again: if a
 * lock were missing somewhere, it would match no row, and nothing would be granted.
 */
export async function writeLeases(
  tx: Tx,
  { producerId, epoch }: { readonly producerId: string; readonly epoch: string },
  changes: readonly LeaseChange[],
): Promise<void> {
  const moves = movesOf(changes);
  const leases = changes.filter(
    ({ before, lease, outcome }) =>
      (lease.seq !== before?.seq ||
        lease.returned !== before.returned ||
        lease.standing !== before.standing) &&
      (before !== undefined || (outcome !== 'replaced' && outcome !== 'closed')),
  );
  if (moves.length === 0 && leases.length === 0) return;
  const { rows } = await sql<{ moved: number }>`
    WITH moved AS (
      -- Each row exists: ON CONFLICT serves as an update by key, and opening_nano_usd carries the amount (addToLeased).
      INSERT INTO spend_buckets AS bucket (
        bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd, opening_nano_usd, limit_nano_usd)
      SELECT bucket_key, '', 0, '', 'epoch', 0, added, limit_nano_usd
      FROM unnest(${arrayLiteral(moves.map(({ key }) => key))}::text[],
                  ${arrayLiteral(moves.map(({ added }) => added))}::bigint[],
                  ${arrayLiteral(moves.map(({ limit }) => limit))}::bigint[])
        AS move (bucket_key, added, limit_nano_usd)
      ON CONFLICT (bucket_key) DO UPDATE
      SET leased_nano_usd = bucket.leased_nano_usd + excluded.opening_nano_usd, limit_nano_usd = excluded.limit_nano_usd
      WHERE excluded.opening_nano_usd <= 0 OR excluded.limit_nano_usd IS NULL
        OR bucket.spent_nano_usd + bucket.leased_nano_usd + excluded.opening_nano_usd <= excluded.limit_nano_usd
      RETURNING policy_id
    ), saved AS (
      INSERT INTO budget_leases (
        bucket_key, producer_id, epoch, window_end, seq, granted_nano_usd, returned_nano_usd, standing_nano_usd)
      SELECT lease.bucket_key, ${producerId}::uuid, ${epoch}::uuid, lease.window_end, lease.seq, lease.granted,
             lease.returned, lease.standing
      FROM unnest(${arrayLiteral(leases.map(({ key }) => key))}::text[],
                  ${arrayLiteral(leases.map(({ windowEnd }) => windowEnd))}::timestamptz[],
                  ${arrayLiteral(leases.map(({ lease }) => lease.seq))}::bigint[],
                  ${arrayLiteral(leases.map(({ lease }) => lease.granted))}::bigint[],
                  ${arrayLiteral(leases.map(({ lease }) => lease.returned))}::bigint[],
                  ${arrayLiteral(leases.map(({ lease }) => lease.standing))}::bigint[])
        AS lease (bucket_key, window_end, seq, granted, returned, standing)
      ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE
      SET seq = excluded.seq, granted_nano_usd = excluded.granted_nano_usd, returned_nano_usd = excluded.returned_nano_usd,
          standing_nano_usd = excluded.standing_nano_usd
    )
    SELECT count(*)::int AS moved FROM moved WHERE policy_id <> ''`.execute(tx);
  if (rows[0]?.moved !== moves.length) throw new Error('a bucket changed while it was locked');
}

/** The changes of the buckets, one per bucket. A lease on a replaced counter holds in the newer one as well. */
function movesOf(changes: readonly LeaseChange[]) {
  const moves = new Map<string, { readonly key: string; added: NanoUsd; readonly limit: NanoUsd | null }>();
  for (const { key, addedHold, bucket, updated } of changes) {
    if (addedHold !== 0n || updated.limit !== bucket.limit)
      moves.set(key, { key, added: addedHold, limit: updated.limit });
  }
  for (const { addedHold, newer } of changes) {
    if (!newer || addedHold === 0n) continue;
    const move = moves.get(newer.key);
    if (move) move.added += addedHold;
    else moves.set(newer.key, { key: newer.key, added: addedHold, limit: newer.limit });
  }
  return [...moves.values()];
}

/** Inserts rows for buckets that have none. */
export async function openBuckets(db: Database, buckets: readonly BucketRef[]): Promise<void> {
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT opened.*, 0
    FROM unnest(${arrayLiteral(buckets.map(bucketKey))}::text[],
                ${arrayLiteral(buckets.map(({ policyId }) => policyId))}::text[],
                ${arrayLiteral(buckets.map(({ counterVersion }) => counterVersion))}::int[],
                ${arrayLiteral(buckets.map(({ subject }) => subject))}::text[],
                ${arrayLiteral(buckets.map(windowStartOf))}::timestamptz[])
      AS opened (bucket_key, policy_id, counter_version, subject, window_start)
    ORDER BY opened.bucket_key COLLATE "C"
    ON CONFLICT DO NOTHING`.execute(db);
}
