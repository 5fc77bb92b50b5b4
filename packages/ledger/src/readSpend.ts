import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { LEDGER_AS_OF } from './asOf.ts';
import { type BucketRef, bucketKey, principalBucket } from './buckets.ts';

/** One counter as it stands, read in one snapshot. */
export interface Spend {
  readonly spent: NanoUsd;
  /** The principal's spend over all its keys under the same policy in the same window. */
  readonly principalSpent: NanoUsd;
  /** When the newest event of the ledger was settled; the snapshot's own time where the ledger is empty. */
  readonly asOf: Date;
  readonly queriedAt: Date;
}

export async function readSpend(db: Database, bucket: BucketRef, principalId: string): Promise<Spend> {
  const { rows } = await sql<{ spent: bigint; principal_spent: bigint; as_of: Date; queried_at: Date }>`
    SELECT
      coalesce((SELECT spent_nano_usd FROM spend_buckets WHERE bucket_key = ${bucketKey(bucket)}), 0) AS spent,
      coalesce((
        SELECT spent_nano_usd FROM spend_buckets
        WHERE bucket_key = ${bucketKey(principalBucket(bucket, principalId))}
      ), 0) AS principal_spent,
      ${LEDGER_AS_OF} AS as_of,
      statement_timestamp() AS queried_at`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM answered no row');
  return {
    spent: row.spent,
    principalSpent: row.principal_spent,
    asOf: row.as_of,
    queriedAt: row.queried_at,
  };
}

/** What each bucket has spent, in nano-USD; one that never counted anything has spent nothing. */
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
