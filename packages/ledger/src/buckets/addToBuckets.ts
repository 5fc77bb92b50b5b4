import { type BucketRef, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { CompiledQuery } from 'kysely';
import { amountIn, type CountedAmounts } from './amountIn.ts';
import { boundedSumText } from './boundedSum.ts';

/** An amount, and the buckets that it adds to, by key. */
export interface CountedAmount extends CountedAmounts {
  readonly counters: ReadonlyMap<string, BucketRef>;
}

const UPSERT = `
  INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
  SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::timestamptz[], $6::bigint[])
  ON CONFLICT (bucket_key) DO UPDATE
    SET spent_nano_usd = ${boundedSumText('spend_buckets.spent_nano_usd::numeric + excluded.spent_nano_usd')}`;

/** Adds amounts to their buckets. Locks the buckets in the order of their keys under `COLLATE "C"`. */
export async function addToBuckets(tx: Tx, counted: readonly CountedAmount[]): Promise<void> {
  const byCounters = new Map<CountedAmount['counters'], bigint>();
  const sums = new Map<string, { readonly bucket: BucketRef; readonly nano: bigint }>();
  const add = (key: string, bucket: BucketRef, nano: bigint) => {
    sums.set(key, { bucket, nano: (sums.get(key)?.nano ?? 0n) + nano });
  };
  for (const event of counted) {
    const { row, counters } = event;
    if (!event.counts) byCounters.set(counters, (byCounters.get(counters) ?? 0n) + row.cost_nano_usd);
    else for (const [key, bucket] of counters) add(key, bucket, amountIn(bucket, event));
  }
  for (const [counters, nano] of byCounters) {
    for (const [key, bucket] of counters) add(key, bucket, nano);
  }
  if (sums.size === 0) return;
  const rows = [...sums]
    .map((row) => ({ row, bytes: Buffer.from(row[0]) }))
    .sort((a, b) => Buffer.compare(a.bytes, b.bytes))
    .map(({ row }) => row);
  await tx.executeQuery(
    CompiledQuery.raw(UPSERT, [
      arrayLiteral(rows.map(([key]) => key)),
      arrayLiteral(rows.map(([, { bucket }]) => bucket.policyId)),
      arrayLiteral(rows.map(([, { bucket }]) => bucket.counterVersion)),
      arrayLiteral(rows.map(([, { bucket }]) => bucket.subject)),
      arrayLiteral(rows.map(([, { bucket }]) => windowStartOf(bucket))),
      arrayLiteral(rows.map(([, { nano }]) => nano)),
    ]),
  );
}
