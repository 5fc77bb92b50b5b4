import { type BucketRef, bucketKey } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';

/** The spend of each bucket in nano-USD; 0 for a bucket without a row. */
export async function readSpent(db: Database, buckets: readonly BucketRef[]): Promise<Map<string, NanoUsd>> {
  const keys = buckets.map(bucketKey);
  const spent = new Map(keys.map((key) => [key, 0n]));
  if (keys.length === 0) return spent;
  const rows = await db
    .selectFrom('spend_buckets')
    .select(['bucket_key', 'spent_nano_usd'])
    .where('bucket_key', 'in', keys)
    .execute();
  for (const row of rows) spent.set(row.bucket_key, row.spent_nano_usd);
  return spent;
}
