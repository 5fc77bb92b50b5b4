import type { Tx } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';

/** A counter reached a percentage of its policy's limit, for the first time in its window. */
export interface ThresholdReached {
  readonly policyId: string;
  readonly subject: string;
  readonly windowStart: Date;
  readonly percent: number;
  readonly limitNanoUsd: NanoUsd;
  readonly spentNanoUsd: NanoUsd;
}

/**
 * Puts on record which thresholds of their policies these buckets have reached, each once, with an audit row. To be
 * called when they were added to, in the same transaction. Sums of principals beside a counter of another scope are no
 * counters: nothing limits them.
 */
export async function recordThresholds(
  tx: Tx,
  bucketKeys: readonly string[],
  now: Date,
): Promise<ThresholdReached[]> {
  if (bucketKeys.length === 0) return [];
  const { rows } = await sql<{
    policy_id: string;
    subject: string;
    window_start: Date;
    percent: number;
    limit_nano_usd: bigint;
    spent_nano_usd: bigint;
  }>`
    WITH reached AS (
      SELECT bucket.bucket_key, bucket.policy_id, bucket.subject, bucket.window_start, bucket.spent_nano_usd,
             policies.limit_nano_usd, threshold.percent
      FROM spend_buckets AS bucket
      JOIN policies ON policies.id = bucket.policy_id AND policies.counter_version = bucket.counter_version
      CROSS JOIN LATERAL unnest(policies.thresholds) AS threshold (percent)
      WHERE bucket.bucket_key = ANY (${bucketKeys}::text[])
        AND cardinality(policies.thresholds) > 0 AND policies.enforcement <> 'off'
        AND policies.counter_scope = split_part(bucket.subject, ':', 1)
        AND bucket.spent_nano_usd >= policies.limit_nano_usd::numeric * threshold.percent / 100
    ), told AS (
      INSERT INTO budget_thresholds_reached (bucket_key, percent, reached_at)
      SELECT bucket_key, percent, ${now} FROM reached ORDER BY bucket_key, percent
      ON CONFLICT DO NOTHING
      RETURNING bucket_key, percent
    ), audited AS (
      INSERT INTO audit_log (at, actor_principal_id, action, resource_id, detail)
      SELECT ${now}, 'metering', 'policy.threshold_reached', policy_id, jsonb_build_object(
        'percent', percent, 'subject', subject,
        'window_start', to_char(window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'spent_micro_usd', (spent_nano_usd + 500) / 1000, 'limit_micro_usd', limit_nano_usd / 1000)
      FROM reached JOIN told USING (bucket_key, percent)
    )
    SELECT policy_id, subject, window_start, percent, limit_nano_usd, spent_nano_usd
    FROM reached JOIN told USING (bucket_key, percent)
    ORDER BY policy_id, subject, percent`.execute(tx);
  return rows.map((row) => ({
    policyId: row.policy_id,
    subject: row.subject,
    windowStart: row.window_start,
    percent: row.percent,
    limitNanoUsd: row.limit_nano_usd,
    spentNanoUsd: row.spent_nano_usd,
  }));
}
