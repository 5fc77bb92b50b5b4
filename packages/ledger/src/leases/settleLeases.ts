import type { Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { arrayLiteral } from '../arrayLiteral.ts';
import { type BucketRef, bucketKey } from '../buckets.ts';

/** What it needs to know of an event that the ledger did not have before. */
export interface NewEvent {
  readonly row: {
    /** Who spent it, in which epoch; none in corrections. */
    readonly producer_id?: string | null | undefined;
    readonly epoch?: string | null | undefined;
    readonly cost_nano_usd: bigint;
  };
  /** The buckets that it was admitted on. */
  readonly buckets: readonly BucketRef[];
}

/**
 * Settles new events against the leases that they were admitted on, by what they cost, never by what was reserved for
 * them: what a lease no longer holds, its bucket has as spent. In the ledger's transaction, after the buckets (which
 * are locked thereby).
 */
export async function settleLeases(tx: Tx, events: readonly NewEvent[]): Promise<void> {
  const sums = new Map<string, { key: string; producerId: string; epoch: string; cost: NanoUsd }>();
  for (const { row, buckets } of events) {
    const { producer_id: producerId, epoch, cost_nano_usd: cost } = row;
    if (!producerId || !epoch || cost === 0n) continue;
    for (const key of new Set(buckets.map(bucketKey))) {
      const lease = `${producerId}/${epoch}/${key}`;
      const sum = sums.get(lease);
      if (sum) sum.cost += cost;
      else sums.set(lease, { key, producerId, epoch, cost });
    }
  }
  if (sums.size === 0) return;
  const settled = [...sums.values()];
  await sql`
    WITH cost AS (
      SELECT * FROM unnest(${arrayLiteral(settled.map(({ key }) => key))}::text[],
                           ${arrayLiteral(settled.map((sum) => sum.producerId))}::uuid[],
                           ${arrayLiteral(settled.map(({ epoch }) => epoch))}::uuid[],
                           ${arrayLiteral(settled.map((sum) => sum.cost))}::bigint[])
        AS sum (bucket_key, producer_id, epoch, nano_usd)
    ), held AS MATERIALIZED (
      SELECT lease.bucket_key, lease.producer_id, lease.epoch, lease.hold_nano_usd, cost.nano_usd
      FROM cost JOIN budget_leases AS lease USING (bucket_key, producer_id, epoch)
      ORDER BY lease.bucket_key, lease.producer_id, lease.epoch
      FOR NO KEY UPDATE OF lease
    ), settled AS (
      UPDATE budget_leases AS lease SET settled_nano_usd = lease.settled_nano_usd + held.nano_usd
      FROM held
      WHERE lease.bucket_key = held.bucket_key AND lease.producer_id = held.producer_id AND lease.epoch = held.epoch
      RETURNING lease.bucket_key, lease.also_bucket_key, held.hold_nano_usd - lease.hold_nano_usd AS freed
    ), freed AS (
      SELECT key AS bucket_key, sum(freed)::bigint AS nano_usd
      FROM settled CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
      WHERE key IS NOT NULL AND freed > 0
      GROUP BY key
    )
    UPDATE spend_buckets AS bucket SET leased_nano_usd = bucket.leased_nano_usd - freed.nano_usd
    FROM freed
    WHERE bucket.bucket_key = freed.bucket_key`.execute(tx);
}
