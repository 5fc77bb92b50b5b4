import { type BucketRef, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { CompiledQuery } from 'kysely';
import { amountIn, type CountedAmounts } from './amountIn.ts';
import { boundedSumText } from './boundedSum.ts';

/** An amount, and the buckets that it adds to, by key. */
export interface CountedAmount extends CountedAmounts {
  readonly row: CountedAmounts['row'] & { readonly settled_at: Date };
  readonly counters: ReadonlyMap<string, BucketRef>;
}

const UPSERT = `
  INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd, last_used_at)
  SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::text[], $5::timestamptz[], $6::bigint[], $7::timestamptz[])
  ON CONFLICT (bucket_key) DO UPDATE
    SET spent_nano_usd = ${boundedSumText('spend_buckets.spent_nano_usd::numeric + excluded.spent_nano_usd')},
      last_used_at = greatest(spend_buckets.last_used_at, excluded.last_used_at)`;

/** Adds amounts to their buckets. Locks the buckets in the order of their keys under `COLLATE "C"`. */
export async function addToBuckets(tx: Tx, counted: readonly CountedAmount[]): Promise<void> {
  const byCounters = new Map<CountedAmount['counters'], Sum>();
  const sums = new Map<string, Sum & { readonly bucket: BucketRef }>();
  const add = (key: string, bucket: BucketRef, sum: Sum) => {
    sums.set(key, { bucket, ...added(sums.get(key), sum) });
  };
  for (const event of counted) {
    const { row, counters } = event;
    const usedAt = row.settled_at;
    if (!event.counts) {
      byCounters.set(counters, added(byCounters.get(counters), { nano: row.cost_nano_usd, usedAt }));
      continue;
    }
    for (const [key, bucket] of counters) add(key, bucket, { nano: amountIn(bucket, event), usedAt });
  }
  for (const [counters, sum] of byCounters) {
    for (const [key, bucket] of counters) add(key, bucket, sum);
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
      arrayLiteral(rows.map(([, { usedAt }]) => usedAt)),
    ]),
  );
}

interface Sum {
  readonly nano: bigint;
  /** When the latest of its events was settled. */
  readonly usedAt: Date;
}

function added(sum: Sum | undefined, { nano, usedAt }: Sum): Sum {
  if (!sum) return { nano, usedAt };
  return { nano: sum.nano + nano, usedAt: usedAt > sum.usedAt ? usedAt : sum.usedAt };
}
