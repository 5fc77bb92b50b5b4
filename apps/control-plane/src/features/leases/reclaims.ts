import type { BucketRef } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Notifies all control planes that leases on a bucket are reclaimed. A missed notification costs a second. */
export const RECLAIMS_CHANNEL = 'weighbridge_lease_recalls';

/** A bucket is reclaimed at most this often, however many proxies wait for it. */
const PAUSE_MS = 200;

/** Asks all proxies, through all control planes, to return the idle part of their leases on buckets. */
export function createLeaseReclaims(db: Database): (buckets: readonly BucketRef[]) => Promise<void> {
  const recent = new Set<string>();
  return async (buckets) => {
    const due = buckets.map(reclaimText).filter((text) => !recent.has(text));
    if (due.length === 0) return;
    for (const text of due) {
      recent.add(text);
      setTimeout(() => recent.delete(text), PAUSE_MS).unref();
    }
    await sql`SELECT pg_notify(${RECLAIMS_CHANNEL}, text) FROM unnest(${due}::text[]) AS text`.execute(db);
  };
}

/** One transaction reclaims at most this many buckets. */
const MAX_RECLAIMED = 10_000;

/**
 * On commit, asks all proxies to return the idle part of their leases on those buckets whose spend and leases exceed the limit: an
 * operator may have lowered it to stop spend. Buckets are given by their keys, or as all of policies or further limits.
 */
export async function reclaimExcess(
  tx: Tx,
  {
    policyIds,
    bucketKeys,
  }: { readonly policyIds?: readonly string[]; readonly bucketKeys?: readonly string[] },
): Promise<void> {
  const isNamed = policyIds
    ? sql`policy_id = ANY (${arrayLiteral(policyIds)}::text[])`
    : sql`bucket_key = ANY (${arrayLiteral(bucketKeys ?? [])}::text[])`;
  await sql`
    SELECT pg_notify(${RECLAIMS_CHANNEL}, json_build_array(
      policy_id, counter_version, subject, (extract(epoch FROM window_start) * 1000)::bigint)::text)
    FROM (
      SELECT * FROM spend_buckets AS bucket
      WHERE ${isNamed} AND leased_nano_usd > 0 AND spent_nano_usd + leased_nano_usd > limit_nano_usd
      LIMIT ${MAX_RECLAIMED}
    ) AS bucket`.execute(tx);
}

function reclaimText({ policyId, counterVersion, subject, windowStartMs }: BucketRef): string {
  return JSON.stringify([policyId, counterVersion, subject, Number(windowStartMs)]);
}

/** The bucket that a notification names. */
export function reclaimedBucket(text: string): BucketRef {
  const [policyId, counterVersion, subject, windowStartMs] = JSON.parse(text) as [
    string,
    number,
    string,
    number,
  ];
  return { policyId, counterVersion, subject, windowStartMs: BigInt(windowStartMs) };
}
