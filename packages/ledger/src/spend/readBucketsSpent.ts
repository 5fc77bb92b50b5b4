import { type BucketRef, bucketKey } from '@weighbridge/budget';
import { arrayLiteral, type Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { unmergedSpend } from '../buckets/unmerged.ts';
import { unattributed } from '../leases/readUnattributed.ts';

/** What each bucket has spent, by key; as in `readSpend`, with what lost proxies' leases hold. A bucket without spend has 0. */
export async function readBucketsSpent(
  db: Database,
  buckets: readonly BucketRef[],
): Promise<ReadonlyMap<string, NanoUsd>> {
  if (buckets.length === 0) return new Map();
  const { rows } = await sql<{ bucket_key: string; spent: bigint }>`
    SELECT wanted.bucket_key,
      coalesce(bucket.spent_nano_usd, 0) + ${unmergedSpend(sql.ref('wanted.bucket_key'))}
        + ${unattributed(sql.ref('wanted.bucket_key'))} AS spent
    FROM unnest(${arrayLiteral(buckets.map(bucketKey))}::text[]) AS wanted (bucket_key)
    LEFT JOIN spend_buckets AS bucket ON bucket.bucket_key = wanted.bucket_key`.execute(db);
  return new Map(rows.map((row) => [row.bucket_key, row.spent]));
}
