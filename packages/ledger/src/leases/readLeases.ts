import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type NanoUsd, type WindowKind, windowAt } from '@weighbridge/domain';
import { sql } from 'kysely';
import { type BucketRef, bucketKey } from '../buckets/bucketRef.ts';
import { limitAt } from '../buckets/overrides.ts';
import type { LeaseFigures } from './decideGrant.ts';

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
    JOIN policies ON policies.id = wanted.policy_id`.execute(tx);
  const found = new Map(rows.map((row) => [row.bucket_key, row]));
  const current = new Map<string, CurrentBucket>();
  for (const { bucket } of calls) {
    const key = bucketKey(bucket);
    const policy = found.get(key);
    if (policy?.counter_version !== bucket.counterVersion) continue;
    const window = windowAt(policy.window_kind, policy.timezone, now);
    if (window.start.getTime() !== bucket.windowStart.getTime()) continue;
    current.set(key, { nanoUsd: policy.limit_nano_usd, windowEnd: window.end });
  }
  return current;
}

/** For a holder's leases on replaced counters: the key of the newer counter's bucket, by the lease's bucket key. */
export async function findNextBuckets(
  tx: Tx,
  { producerId, epoch }: Holder,
  keys: readonly string[],
): Promise<Map<string, string>> {
  const { rows } = await sql<{ bucket_key: string; also_bucket_key: string }>`
    SELECT bucket_key, also_bucket_key FROM budget_leases
    WHERE bucket_key = ANY (${arrayLiteral(keys)}::text[]) AND producer_id = ${producerId} AND epoch = ${epoch}
      AND also_bucket_key IS NOT NULL`.execute(tx);
  return new Map(rows.map((row) => [row.bucket_key, row.also_bucket_key]));
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
    LEFT JOIN budget_leases AS lease
      ON lease.producer_id = producer.producer_id AND lease.epoch = producer.epoch
      AND lease.bucket_key = ANY (${arrayLiteral(keys)}::text[])
    WHERE producer.producer_id = ${producerId} AND producer.epoch = ${epoch}
    FOR SHARE OF producer`.execute(tx);
  const leases = new Map<string, LeaseFigures>();
  for (const { bucket_key, may_hold: _, ...figures } of rows) if (bucket_key) leases.set(bucket_key, figures);
  return { leases, mayHold: rows[0]?.may_hold === true };
}
