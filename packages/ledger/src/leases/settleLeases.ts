import { type BucketRef, bucketKey } from '@weighbridge/budget';
import { arrayLiteral, BIGINT, binaryArray, type Tx, UUID } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { addToLeased } from '../buckets/addToLeased.ts';
import { amountIn, type CountedAmounts } from '../buckets/amountIn.ts';
import { boundedSum } from '../buckets/boundedSum.ts';
import { lockedLeaseOf } from './leaseOf.ts';

/** The parts of a new event that its leases need. */
export interface NewEvent extends CountedAmounts {
  readonly row: {
    /** The producer and epoch that spent it; corrections have none. */
    readonly producer_id?: string | null | undefined;
    readonly epoch?: string | null | undefined;
    readonly cost_nano_usd: bigint;
  };
  /** The buckets that it was admitted on. */
  readonly buckets: readonly BucketRef[];
}

/**
 * Settles new events against the leases that they were admitted on, by their cost and not by their reservation: what a lease
 * no longer holds is spent in its bucket. Call it in the ledger's transaction after `addToBuckets`, which locks the buckets.
 */
export async function settleLeases(tx: Tx, events: readonly NewEvent[]): Promise<void> {
  const sums = sumByLease(events);
  if (sums.length === 0) return;
  await sql`
    WITH held AS MATERIALIZED (
      SELECT lease.*, cost.nano_usd
      FROM unnest(${arrayLiteral(sums.map(({ key }) => key))}::text[],
                  ${binaryArray(UUID, sums, ({ producerId }) => producerId)}::uuid[],
                  ${binaryArray(UUID, sums, ({ epoch }) => epoch)}::uuid[],
                  ${binaryArray(BIGINT, sums, ({ cost }) => cost)}::bigint[])
        AS cost (bucket_key, producer_id, epoch, nano_usd)
      CROSS JOIN LATERAL (${lockedLeaseOf('cost')}) AS lease
    ), settled AS (
      -- Each row exists, and is locked. A conflict finds it by its key.
      INSERT INTO budget_leases AS lease (
        bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd, settled_nano_usd)
      SELECT bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd,
        ${boundedSum(sql`settled_nano_usd::numeric + nano_usd`)}
      FROM held
      ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE SET settled_nano_usd = excluded.settled_nano_usd
    ), freed AS (
      SELECT key AS bucket_key, -sum(least(hold_nano_usd, nano_usd))::bigint AS nano_usd
      FROM held CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
      WHERE key IS NOT NULL AND hold_nano_usd > 0 AND nano_usd > 0
      GROUP BY key
    )
    ${addToLeased('freed')}`.execute(tx);
}

interface LeaseSum {
  readonly key: string;
  readonly producerId: string;
  readonly epoch: string;
  cost: NanoUsd;
}

/** The cost of the events by bucket and epoch. */
function sumByLease(events: readonly NewEvent[]): LeaseSum[] {
  const byEpoch = new Map<string, Map<string, LeaseSum>>();
  // Most events of one payer share their buckets.
  const namedOf = new Map<NewEvent['buckets'], ReadonlyMap<string, BucketRef>>();
  for (const event of events) {
    const { row, buckets } = event;
    const { producer_id: producerId, epoch, cost_nano_usd: cost } = row;
    if (!producerId || !epoch || (cost === 0n && !event.counts)) continue;
    const name = `${producerId}/${epoch}`;
    const sums = byEpoch.get(name) ?? new Map<string, LeaseSum>();
    byEpoch.set(name, sums);
    const named = namedOf.get(buckets) ?? new Map(buckets.map((bucket) => [bucketKey(bucket), bucket]));
    namedOf.set(buckets, named);
    for (const [key, bucket] of named) {
      const amount = event.counts ? amountIn(bucket, event) : cost;
      const sum = sums.get(key);
      if (sum) sum.cost += amount;
      else if (amount !== 0n) sums.set(key, { key, producerId, epoch, cost: amount });
    }
  }
  return [...byEpoch.values()].flatMap((sums) => [...sums.values()]);
}
