import { type BucketRef, bucketKey } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { limitAt } from '../buckets/overrides.ts';

/**
 * The part of each bucket's limit that is neither spent nor leased, by key, for sizing grants. Nothing is locked, so it may
 * change at once. Unlimited buckets are left out.
 */
export async function readHeadroom(
  db: Database,
  buckets: readonly BucketRef[],
  now: Date,
): Promise<Map<string, NanoUsd>> {
  const { rows } = await sql<{ bucket_key: string; headroom: bigint }>`
    SELECT wanted.bucket_key,
           greatest(${limitAt(sql.ref('wanted.subject'), now)} - coalesce(bucket.spent_nano_usd + bucket.leased_nano_usd, 0), 0) AS headroom
    FROM unnest(${buckets.map(bucketKey)}::text[], ${buckets.map(({ policyId }) => policyId)}::text[],
                ${buckets.map(({ subject }) => subject)}::text[])
      AS wanted (bucket_key, policy_id, subject)
    CROSS JOIN LATERAL (SELECT * FROM policies WHERE id = wanted.policy_id LIMIT 1) AS policies
    LEFT JOIN LATERAL (
      SELECT * FROM spend_buckets AS named WHERE named.bucket_key = wanted.bucket_key LIMIT 1
    ) AS bucket ON true
    WHERE policies.limit_nano_usd IS NOT NULL`.execute(db);
  return new Map(rows.map((row) => [row.bucket_key, row.headroom]));
}
