import type { LeaseFigures } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { lockedLeaseOf } from './leaseOf.ts';
import { lockedInOrder, type ReadBucket } from './readLeases.ts';

export interface LeaseChange {
  readonly key: string;
  /** Undefined: its window ended, and it has no row. */
  readonly bucket: ReadBucket | undefined;
  /** The bucket of a newer counter that the lease holds in as well. */
  readonly newer: ReadBucket | undefined;
  readonly windowEnd: Date | null;
  /** The limit that the bucket is to have. */
  readonly limit: NanoUsd | null;
  /** Undefined: the holder had no lease. */
  readonly before: LeaseFigures | undefined;
  readonly lease: LeaseFigures;
  /** Whether the holder gets a lease that it did not have. */
  readonly isOpened: boolean;
  /** Less than the grant if more was spent than had been granted before. */
  readonly addedHold: NanoUsd;
}

interface Holder {
  readonly producerId: string;
  readonly epoch: string;
}

/**
 * Locks the buckets and the holder's epoch, and writes leases and what they hold, if all is as it was read: versions of buckets, leases
 * and `mayHold`. False otherwise, and the transaction must be rolled back. Each update of a bucket checks the limit again: if a lock
 * were missing somewhere, it would match no row.
 */
export async function writeLeases(
  tx: Tx,
  { producerId, epoch }: Holder,
  { mayHold }: { readonly mayHold: boolean },
  changes: readonly LeaseChange[],
): Promise<boolean> {
  const moves = movesOf(changes);
  const leases = changes.filter(isChanged);
  if (moves.length === 0 && leases.length === 0) return true;
  const buckets = bucketsOf(changes);
  const [held, opened] = [
    leases.filter(({ before }) => before !== undefined),
    leases.filter(({ before }) => before === undefined),
  ];
  const columns = sql`
    bucket_key, producer_id, epoch, window_end, seq, granted_nano_usd, returned_nano_usd, standing_nano_usd`;
  // Each part refers to `unchanged`, so that the buckets are locked before anything else is read or written.
  const { rows } = await sql<{
    is_same: boolean;
    moved: number;
    held: number;
    saved: number;
    opened: number;
  }>`
    WITH locked AS MATERIALIZED (
      SELECT bucket_key, xmin::text AS version FROM spend_buckets ${lockedInOrder([...buckets.keys()])}
    ), unchanged AS MATERIALIZED (
      SELECT FROM (
        SELECT count(*) AS count
        FROM unnest(${arrayLiteral([...buckets.keys()])}::text[],
                    ${arrayLiteral([...buckets.values()].map(({ version }) => version))}::text[])
          AS read (bucket_key, version)
        WHERE (read.bucket_key, read.version) IN (SELECT bucket_key, version FROM locked)
      ) AS same
      WHERE same.count = ${buckets.size}
    ), epoch AS MATERIALIZED (
      SELECT state = 'open' AND superseded_by IS NULL AS may_hold FROM producers
      WHERE producer_id = ${producerId} AND epoch = ${epoch} AND EXISTS (SELECT FROM unchanged)
      FOR SHARE
    ), held AS MATERIALIZED (
      SELECT lease.bucket_key
      FROM unnest(${arrayLiteral(held.map(({ key }) => key))}::text[],
                  ${arrayLiteral(held.map(({ before }) => before?.seq))}::bigint[],
                  ${arrayLiteral(held.map(({ before }) => before?.granted))}::bigint[],
                  ${arrayLiteral(held.map(({ before }) => before?.returned))}::bigint[],
                  ${arrayLiteral(held.map(({ before }) => before?.settled))}::bigint[],
                  ${arrayLiteral(held.map(({ before }) => before?.closed))}::boolean[])
        AS read (bucket_key, seq, granted, returned, settled, closed)
      CROSS JOIN (SELECT ${producerId}::uuid AS producer_id, ${epoch}::uuid AS epoch) AS holder
      CROSS JOIN LATERAL (
        SELECT read.bucket_key, holder.producer_id, holder.epoch WHERE EXISTS (SELECT FROM unchanged)
      ) AS own
      CROSS JOIN LATERAL (${lockedLeaseOf('own')}) AS lease
      WHERE (lease.seq, lease.granted_nano_usd, lease.returned_nano_usd, lease.settled_nano_usd, lease.closed)
        = (read.seq, read.granted, read.returned, read.settled, read.closed)
    ), moved AS (
      -- Each row exists: ON CONFLICT serves as an update by key, and opening_nano_usd carries the amount (addToLeased).
      INSERT INTO spend_buckets AS bucket (
        bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd, opening_nano_usd, limit_nano_usd)
      SELECT bucket_key, '', 0, '', 'epoch', 0, added, limit_nano_usd
      FROM unnest(${arrayLiteral(moves.map(({ key }) => key))}::text[],
                  ${arrayLiteral(moves.map(({ added }) => added))}::bigint[],
                  ${arrayLiteral(moves.map(({ limit }) => limit))}::bigint[])
        AS move (bucket_key, added, limit_nano_usd)
      WHERE EXISTS (SELECT FROM unchanged)
      ON CONFLICT (bucket_key) DO UPDATE
      SET leased_nano_usd = bucket.leased_nano_usd + excluded.opening_nano_usd, limit_nano_usd = excluded.limit_nano_usd
      WHERE excluded.opening_nano_usd <= 0 OR excluded.limit_nano_usd IS NULL
        OR bucket.spent_nano_usd + bucket.leased_nano_usd + excluded.opening_nano_usd <= excluded.limit_nano_usd
      RETURNING policy_id
    ), saved AS (
      INSERT INTO budget_leases AS lease (${columns})
      SELECT ${columns} FROM (${rowsOf(held, { producerId, epoch })}) AS lease
      WHERE bucket_key IN (SELECT bucket_key FROM held)
      ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE
      SET seq = excluded.seq, granted_nano_usd = excluded.granted_nano_usd, returned_nano_usd = excluded.returned_nano_usd,
          standing_nano_usd = excluded.standing_nano_usd
      RETURNING 1
    ), opened AS (
      INSERT INTO budget_leases (${columns})
      SELECT ${columns} FROM (${rowsOf(opened, { producerId, epoch })}) AS lease
      WHERE EXISTS (SELECT FROM unchanged)
      ON CONFLICT DO NOTHING
      RETURNING 1
    )
    SELECT EXISTS (SELECT FROM unchanged) AND coalesce((SELECT may_hold FROM epoch), false) = ${mayHold} AS is_same,
      (SELECT count(*)::int FROM moved WHERE policy_id <> '') AS moved,
      (SELECT count(*)::int FROM saved) AS saved, (SELECT count(*)::int FROM opened) AS opened`.execute(tx);
  const [row] = rows;
  if (!row?.is_same || row.saved !== held.length || row.opened !== opened.length) return false;
  if (row.moved !== moves.length) throw new Error('a bucket changed while it was locked');
  return true;
}

function isChanged({ before, lease, isOpened }: LeaseChange): boolean {
  if (!before) return isOpened;
  return lease.seq !== before.seq || lease.returned !== before.returned || lease.standing !== before.standing;
}

function rowsOf(changes: readonly LeaseChange[], { producerId, epoch }: Holder) {
  const amounts = (read: (lease: LeaseFigures) => bigint) =>
    sql`${arrayLiteral(changes.map(({ lease }) => read(lease)))}::bigint[]`;
  return sql`
    SELECT row.*, ${producerId}::uuid AS producer_id, ${epoch}::uuid AS epoch
    FROM unnest(${arrayLiteral(changes.map(({ key }) => key))}::text[],
                ${arrayLiteral(changes.map(({ windowEnd }) => windowEnd))}::timestamptz[],
                ${amounts(({ seq }) => seq)}, ${amounts(({ granted }) => granted)},
                ${amounts(({ returned }) => returned)}, ${amounts(({ standing }) => standing)})
      AS row (bucket_key, window_end, seq, granted_nano_usd, returned_nano_usd, standing_nano_usd)`;
}

/** The buckets that are written, or whose leases are, with those of newer counters, by key. */
function bucketsOf(changes: readonly LeaseChange[]): ReadonlyMap<string, ReadBucket> {
  const buckets = new Map<string, ReadBucket>();
  for (const { bucket, newer } of changes) {
    for (const one of [bucket, newer]) if (one) buckets.set(one.key, one);
  }
  return buckets;
}

/**
 * The changes of the buckets, one per bucket. A lease on a replaced counter holds in the newer one as well. A changed standing part is
 * a change of its bucket, whose leases it is decided with: the row gets a new version.
 */
function movesOf(changes: readonly LeaseChange[]) {
  const moves = new Map<string, { readonly key: string; added: NanoUsd; readonly limit: NanoUsd | null }>();
  for (const { key, addedHold, bucket, limit, before, lease } of changes) {
    const keepsMore = lease.standing > (before?.standing ?? 0n);
    if (addedHold !== 0n || keepsMore || (bucket && limit !== bucket.limit)) {
      moves.set(key, { key, added: addedHold, limit });
    }
  }
  for (const { addedHold, newer } of changes) {
    if (!newer || addedHold === 0n) continue;
    const move = moves.get(newer.key);
    if (move) move.added += addedHold;
    else moves.set(newer.key, { key: newer.key, added: addedHold, limit: newer.limit });
  }
  return [...moves.values()];
}
