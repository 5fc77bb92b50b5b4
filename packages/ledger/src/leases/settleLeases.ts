import { arrayLiteral, BIGINT, binaryArray, INTEGER, type Tx, UUID } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { type BucketRef, bucketKey } from '../buckets/bucketRef.ts';

/** More than a transaction's 2,000 events can name, with at most 64 buckets each. */
const MAX_KEYS = 2 ** 20;

/** The parts of a new event that its leases need. */
export interface NewEvent {
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
  const { epochs, keys, sums } = sumByLease(events);
  if (sums.length === 0) return;
  // Each name is sent once, however many leases it is in.
  await sql`
    WITH epoch AS (
      SELECT * FROM unnest(${binaryArray(UUID, epochs, ({ producerId }) => producerId)}::uuid[],
                           ${binaryArray(UUID, epochs, ({ epoch }) => epoch)}::uuid[])
        WITH ORDINALITY AS epoch (producer_id, epoch, epoch_at)
    ), bucket AS (
      SELECT * FROM unnest(${arrayLiteral(keys)}::text[]) WITH ORDINALITY AS bucket (bucket_key, bucket_at)
    ), cost AS (
      SELECT bucket_key, producer_id, epoch, nano_usd
      FROM unnest(${binaryArray(INTEGER, sums, ({ epochAt }) => epochAt)}::integer[],
                  ${binaryArray(INTEGER, sums, ({ bucketAt }) => bucketAt)}::integer[],
                  ${binaryArray(BIGINT, sums, ({ cost }) => cost)}::bigint[]) AS sum (epoch_at, bucket_at, nano_usd)
      JOIN epoch USING (epoch_at) JOIN bucket USING (bucket_at)
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

interface LeaseSum {
  /** Indexes of the epoch and the key, counted from 1 as in Postgres. */
  readonly epochAt: number;
  readonly bucketAt: number;
  cost: NanoUsd;
}

/** The cost of the events by epoch and bucket, and lists of both. */
function sumByLease(events: readonly NewEvent[]) {
  const epochs = new Map<
    string,
    { readonly producerId: string; readonly epoch: string; readonly at: number }
  >();
  const keys = new Map<string, number>();
  const sums = new Map<number, LeaseSum>();
  // Most events of one payer share their buckets.
  const numbered = new Map<NewEvent['buckets'], readonly number[]>();
  const number = (key: string): number => {
    const at = keys.get(key) ?? keys.size + 1;
    keys.set(key, at);
    return at;
  };
  for (const { row, buckets } of events) {
    const { producer_id: producerId, epoch, cost_nano_usd: cost } = row;
    if (!producerId || !epoch || cost === 0n) continue;
    const name = `${producerId}/${epoch}`;
    const known = epochs.get(name) ?? { producerId, epoch, at: epochs.size + 1 };
    epochs.set(name, known);
    const bucketsAt = numbered.get(buckets) ?? [...new Set(buckets.map(bucketKey))].map(number);
    numbered.set(buckets, bucketsAt);
    for (const bucketAt of bucketsAt) {
      const lease = known.at * MAX_KEYS + bucketAt;
      const sum = sums.get(lease);
      if (sum) sum.cost += cost;
      else sums.set(lease, { epochAt: known.at, bucketAt, cost });
    }
  }
  return { epochs: [...epochs.values()], keys: [...keys.keys()], sums: [...sums.values()] };
}
