import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { type BucketRef, bucketKey, principalBucket } from '../buckets/bucketRef.ts';
import { unattributed } from '../leases/readUnattributed.ts';
import { LEDGER_AS_OF } from '../producers/ledgerAsOf.ts';

/** One counter as it stands, read in one snapshot. */
export interface Spend {
  /** With what lost proxies hold of it: they may have spent that, and nobody gives it back. */
  readonly spent: NanoUsd;
  /** The principal's spend over all its keys under the same policy in the same window. */
  readonly principalSpent: NanoUsd;
  /** From when on that is all. Later than the window's start only where the counter began after the ledger's older rows went. */
  readonly principalSpentFrom: Date;
  /** Nothing of the window is known to be missing: no lost epoch, no lasting gap, nothing in quarantine that may be its spend. */
  readonly principalComplete: boolean;
  /** Up to when all usage is known to be in it. */
  readonly asOf: Date;
  readonly queriedAt: Date;
}

/** Batches overtake each other, and mend a gap by themselves: one that lasts is news. */
const GAP_TOLERANCE_SECONDS = 60;

export async function readSpend(db: Database, bucket: BucketRef, principalId: string): Promise<Spend> {
  const { rows } = await sql<{
    spent: bigint;
    principal_spent: bigint;
    counted_from: Date;
    complete: boolean;
    as_of: Date;
    queried_at: Date;
  }>`
    SELECT
      coalesce((SELECT spent_nano_usd FROM spend_buckets WHERE bucket_key = ${bucketKey(bucket)}), 0)
        + ${unattributed(bucketKey(bucket))} AS spent,
      coalesce((
        SELECT spent_nano_usd FROM spend_buckets
        WHERE bucket_key = ${bucketKey(principalBucket(bucket, principalId))}
      ), 0) AS principal_spent,
      -- A counter that was there before rows were dropped has what they counted as its opening balance.
      greatest(${bucket.windowStart}, (
        SELECT dropped_before FROM ledger_floor, policies
        WHERE policies.id = ${bucket.policyId} AND policies.counter_since > dropped_before
          AND policies.counter_version = ${bucket.counterVersion}
      )) AS counted_from,
      NOT EXISTS (SELECT FROM producers WHERE state = 'lost' AND ended_at >= ${bucket.windowStart})
        AND NOT EXISTS (
          SELECT FROM producer_shards JOIN producers USING (producer_id, epoch)
          WHERE state = 'open'
            AND gap_since < statement_timestamp() - make_interval(secs => ${GAP_TOLERANCE_SECONDS})
        )
        AND NOT EXISTS (
          SELECT FROM quarantined_usage
          WHERE state = 'held' AND (principal_id IS NULL OR principal_id = ${principalId})
        ) AS complete,
      ${LEDGER_AS_OF} AS as_of,
      statement_timestamp() AS queried_at`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('a query without FROM answered no row');
  return {
    spent: row.spent,
    principalSpent: row.principal_spent,
    principalSpentFrom: row.counted_from,
    principalComplete: row.complete,
    asOf: row.as_of,
    queriedAt: row.queried_at,
  };
}
