import { type BucketRef, type BucketState, bucketKey, type LeaseFigures } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type NanoUsd, type WindowKind, windowAt } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';
import { limitAt } from '../buckets/overrides.ts';
import { leaseOf } from './leaseOf.ts';

interface Holder {
  readonly producerId: string;
  readonly epoch: string;
}

interface CurrentBucket {
  /** The limit of its override, else of its policy. Null: unlimited. */
  readonly nanoUsd: NanoUsd | null;
  /** Null: the window never ends. */
  readonly windowEnd: Date | null;
}

/** The buckets that are of their policies' current counters and windows, by key. */
export async function findCurrentBuckets(
  tx: Tx,
  { calls, now }: { readonly calls: readonly { readonly bucket: BucketRef }[]; readonly now: Date },
): Promise<Map<string, CurrentBucket>> {
  const { rows } = await sql<{
    bucket_key: string;
    limit_nano_usd: bigint | null;
    counter_version: number;
    window_kind: WindowKind;
    timezone: string;
  }>`
    SELECT wanted.bucket_key, ${limitAt(sql.ref('wanted.subject'), now)} AS limit_nano_usd,
      policies.counter_version, policies.window_kind, policies.timezone
    FROM unnest(${arrayLiteral(calls.map(({ bucket }) => bucketKey(bucket)))}::text[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.policyId))}::text[],
                ${arrayLiteral(calls.map(({ bucket }) => bucket.subject))}::text[])
      AS wanted (bucket_key, policy_id, subject)
    CROSS JOIN LATERAL (SELECT * FROM policies WHERE id = wanted.policy_id LIMIT 1) AS policies`.execute(tx);
  const found = new Map(rows.map((row) => [row.bucket_key, row]));
  const current = new Map<string, CurrentBucket>();
  for (const { bucket } of calls) {
    const key = bucketKey(bucket);
    const policy = found.get(key);
    if (policy?.counter_version !== bucket.counterVersion) continue;
    const window = windowAt(policy.window_kind, policy.timezone, now);
    if (BigInt(window.start.getTime()) !== bucket.windowStartMs) continue;
    current.set(key, { nanoUsd: policy.limit_nano_usd, windowEnd: window.end });
  }
  return current;
}

/** For a holder's leases on replaced counters: the key of the newer counter's bucket, by the lease's bucket key. */
export async function findNewerBuckets(
  tx: Tx,
  { producerId, epoch }: Holder,
  keys: readonly string[],
): Promise<Map<string, string>> {
  const { rows } = await sql<{ bucket_key: string; also_bucket_key: string }>`
    SELECT lease.bucket_key, lease.also_bucket_key
    FROM unnest(${arrayLiteral(keys)}::text[]) AS wanted (bucket_key)
    CROSS JOIN LATERAL (${leaseHeldBy(producerId, epoch)}) AS lease
    WHERE lease.also_bucket_key IS NOT NULL`.execute(tx);
  return new Map(rows.map((row) => [row.bucket_key, row.also_bucket_key]));
}

/** Locks the buckets that exist until the transaction ends, in the order that every writer uses. */
export async function lockBuckets(tx: Tx, keys: readonly string[]): Promise<Map<string, BucketState>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql<{ bucket_key: string; spent: bigint; leased: bigint; limit: bigint | null }>`
    SELECT bucket_key, spent_nano_usd AS spent, leased_nano_usd AS leased, limit_nano_usd AS "limit"
    FROM spend_buckets
    WHERE bucket_key = ANY (${arrayLiteral(keys)}::text[])
    ORDER BY bucket_key COLLATE "C"
    FOR NO KEY UPDATE`.execute(tx);
  return new Map(rows.map(({ bucket_key, ...state }) => [bucket_key, state]));
}

/** A holder's leases on some buckets, by key, and whether it may be granted anything. Locks its epoch against being closed. */
export async function readHolder(
  tx: Tx,
  { producerId, epoch }: Holder,
  keys: readonly string[],
): Promise<{ readonly leases: ReadonlyMap<string, LeaseFigures>; readonly mayHold: boolean }> {
  const { rows } = await sql<LeaseFigures & { may_hold: boolean; bucket_key: string | null }>`
    SELECT producer.state = 'open' AND producer.superseded_by IS NULL AS may_hold, lease.bucket_key, lease.seq,
           lease.granted_nano_usd AS granted, lease.returned_nano_usd AS returned, lease.settled_nano_usd AS settled,
           lease.standing_nano_usd AS standing, lease.closed
    FROM producers AS producer
    LEFT JOIN (
      unnest(${arrayLiteral(keys)}::text[]) AS wanted (bucket_key)
      CROSS JOIN LATERAL (${leaseHeldBy(producerId, epoch)}) AS lease
    ) ON true
    WHERE producer.producer_id = ${producerId} AND producer.epoch = ${epoch}
    FOR SHARE OF producer`.execute(tx);
  const leases = new Map<string, LeaseFigures>();
  for (const { bucket_key, may_hold: _, ...figures } of rows) if (bucket_key) leases.set(bucket_key, figures);
  return { leases, mayHold: rows[0]?.may_hold === true };
}

/** What the leases of other holders may keep in some buckets, which are locked, by key. Those of lost epochs count too. */
export async function readOthersStanding(
  tx: Tx,
  { producerId, epoch }: Holder,
  keys: readonly string[],
): Promise<ReadonlyMap<string, NanoUsd>> {
  const { rows } = await sql<{ bucket_key: string; standing: bigint }>`
    SELECT wanted.bucket_key, others.standing
    FROM unnest(${arrayLiteral(keys)}::text[]) AS wanted (bucket_key)
    -- A sum for each bucket, of all its leases: a join may read all buckets', a condition those of an index that it matches.
    CROSS JOIN LATERAL (
      SELECT sum(standing_nano_usd) FILTER (
        WHERE standing_nano_usd > 0 AND NOT closed AND NOT (producer_id = ${producerId} AND epoch = ${epoch})
      )::bigint AS standing
      FROM budget_leases AS lease WHERE lease.bucket_key = wanted.bucket_key
    ) AS others
    WHERE others.standing IS NOT NULL`.execute(tx);
  return new Map(rows.map((row) => [row.bucket_key, row.standing]));
}

/** An SQL subquery: the holder's lease on the bucket that `wanted` names. */
function leaseHeldBy(producerId: string, epoch: string): RawBuilder<unknown> {
  return leaseOf({
    bucketKey: sql.ref('wanted.bucket_key'),
    producerId: sql`${producerId}::uuid`,
    epoch: sql`${epoch}::uuid`,
  });
}
