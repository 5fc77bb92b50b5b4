import { type BucketRef, bucketKey, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { appendedTo } from '../leases/appendedTo.ts';
import { unattributed } from '../leases/readUnattributed.ts';

export interface CounterUse {
  /** Includes what the leases of lost proxies hold, as in reports. */
  readonly spent: NanoUsd;
  /** What proxies hold and may spend. */
  readonly leased: NanoUsd;
}

interface KnownCounterUse extends CounterUse {
  /** When its latest event was settled; null if there is none, or none since this is recorded. */
  readonly lastUsedAt: Date | null;
}

/** What each bucket has spent and leased, by key. A bucket that nothing counts in yet is absent. */
export async function readCounterUse(
  db: Database,
  buckets: readonly BucketRef[],
): Promise<ReadonlyMap<string, KnownCounterUse>> {
  if (buckets.length === 0) return new Map();
  const { rows } = await sql<{
    bucket_key: string;
    spent: bigint;
    leased: bigint;
    last_used_at: Date | null;
  }>`
    SELECT bucket_key, spent_nano_usd + appended.spent + held AS spent,
      greatest(leased_nano_usd - appended.settled - held, 0) AS leased, last_used_at
    FROM spend_buckets, LATERAL (SELECT ${unattributed(sql.ref('spend_buckets.bucket_key'))} AS held) AS lost,
      LATERAL (${appendedTo(sql.ref('spend_buckets.bucket_key'))}) AS appended
    WHERE bucket_key = ANY (${arrayLiteral(buckets.map(bucketKey))}::text[])`.execute(db);
  return new Map(
    rows.map(({ bucket_key, spent, leased, last_used_at: lastUsedAt }) => [
      bucket_key,
      { spent, leased, lastUsedAt },
    ]),
  );
}

/** The sum over all counters of a policy in one window. */
export async function readPolicyUse(
  db: Database,
  counter: Omit<BucketRef, 'subject'>,
  scope: 'key' | 'principal' | 'policy',
): Promise<CounterUse> {
  const { rows } = await sql<{ spent: string; leased: string }>`
    SELECT coalesce(sum(spent_nano_usd + appended.spent + held), 0)::text AS spent,
      coalesce(sum(greatest(leased_nano_usd - appended.settled - held, 0)), 0)::text AS leased
    FROM spend_buckets, LATERAL (SELECT ${unattributed(sql.ref('spend_buckets.bucket_key'))} AS held) AS lost,
      LATERAL (${appendedTo(sql.ref('spend_buckets.bucket_key'))}) AS appended
    WHERE policy_id = ${counter.policyId} AND counter_version = ${counter.counterVersion}
      AND window_start = ${windowStartOf(counter)}
      AND split_part(subject, ':', 1) = ${scope}`.execute(db);
  const { spent = '0', leased = '0' } = rows[0] ?? {};
  return { spent: BigInt(spent), leased: BigInt(leased) };
}
