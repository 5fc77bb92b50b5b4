import { type BucketRef, bucketKey, principalBucket, windowStartOf } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { unmergedSpend } from '../buckets/unmerged.ts';
import { unattributed } from '../leases/readUnattributed.ts';
import { GAP_TOLERANCE_SECONDS, LEDGER_AS_OF } from '../producers/ledgerAsOf.ts';

/** The state of one bucket, read in one snapshot. */
export interface Spend {
  /** Includes what lost proxies' leases hold: they may have spent it, and it is never returned. */
  readonly spent: NanoUsd;
  /** The principal's spend over all its keys under the same policy in the same window. */
  readonly principalSpent: NanoUsd;
  /** The time from which it counts. Later than the window's start only if older rows were dropped before the counter started. */
  readonly principalSpentFrom: Date;
  /** No usage of the window is known to be missing: no lost epoch, no lasting gap, no quarantined usage that may be the principal's. */
  readonly principalComplete: boolean;
  /** The time up to which all usage is known to be counted. */
  readonly asOf: Date;
  readonly queriedAt: Date;
}

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
        + ${unmergedSpend(bucketKey(bucket))} + ${unattributed(bucketKey(bucket))} AS spent,
      coalesce((
        SELECT spent_nano_usd FROM spend_buckets
        WHERE bucket_key = ${bucketKey(principalBucket(bucket, principalId))}
      ), 0) + ${unmergedSpend(bucketKey(principalBucket(bucket, principalId)))} AS principal_spent,
      -- A counter that existed before rows were dropped has them in its opening balance.
      greatest(${windowStartOf(bucket)}, (
        SELECT dropped_before FROM ledger_floor, policies
        WHERE policies.id = ${bucket.policyId} AND policies.counter_since > dropped_before
          AND policies.counter_version = ${bucket.counterVersion}
      )) AS counted_from,
      NOT EXISTS (SELECT FROM producers WHERE state = 'lost' AND ended_at >= ${windowStartOf(bucket)})
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
  if (!row) throw new Error('a query without FROM returned no row');
  return {
    spent: row.spent,
    principalSpent: row.principal_spent,
    principalSpentFrom: row.counted_from,
    principalComplete: row.complete,
    asOf: row.as_of,
    queriedAt: row.queried_at,
  };
}
