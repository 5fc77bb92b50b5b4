import { type BucketRef, type BucketState, bucketKey, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';

/** Locks the buckets that exist until the transaction ends, in the order that every writer uses. */
export async function lockBuckets(tx: Tx, keys: readonly string[]): Promise<Map<string, BucketState>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql<{ bucket_key: string; spent: bigint; leased: bigint; limit: bigint | null }>`
    SELECT bucket_key, spent_nano_usd AS spent, leased_nano_usd AS leased, limit_nano_usd AS "limit"
    FROM spend_buckets
    WHERE bucket_key = ANY (${arrayLiteral(keys)}::text[])
    ORDER BY bucket_key COLLATE "C"
    FOR NO KEY UPDATE`.execute(tx);
  return new Map(rows.map(({ bucket_key, ...state }) => [bucket_key, state]));
}

/** Inserts rows for buckets that have none. */
export async function openBuckets(db: Database, buckets: readonly BucketRef[]): Promise<void> {
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT opened.*, 0
    FROM unnest(${arrayLiteral(buckets.map(bucketKey))}::text[],
                ${arrayLiteral(buckets.map(({ policyId }) => policyId))}::text[],
                ${arrayLiteral(buckets.map(({ counterVersion }) => counterVersion))}::int[],
                ${arrayLiteral(buckets.map(({ subject }) => subject))}::text[],
                ${arrayLiteral(buckets.map(windowStartOf))}::timestamptz[])
      AS opened (bucket_key, policy_id, counter_version, subject, window_start)
    ORDER BY opened.bucket_key COLLATE "C"
    ON CONFLICT DO NOTHING`.execute(db);
}
