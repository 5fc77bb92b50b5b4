import { type CountUnit, definedBy, unitOf } from '@weighbridge/budget';
import { arrayLiteral, type Database, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { limitAt } from '../buckets/overrides.ts';
import { amountFields } from '../webhookEvents/amountFields.ts';
import { counterOf } from '../webhookEvents/counterOf.ts';
import { recordWebhookEvents } from '../webhookEvents/webhookEvents.ts';
import { currentWindows } from './currentWindows.ts';
import { hasDueThresholds, takeDueThresholds } from './dueThresholds.ts';

/** A counter reached a percentage of its policy's limit, for the first time in its window. */
export interface ThresholdReached {
  readonly policyId: string;
  /** The further limit of the policy; undefined: the policy's own. */
  readonly limitId: string | undefined;
  /** What its amounts are of; undefined: nano-USD. */
  readonly unit: CountUnit | undefined;
  readonly subject: string;
  readonly windowStart: Date;
  readonly percent: number;
  readonly limit: bigint;
  readonly spent: bigint;
}

/**
 * Records which of their policies' thresholds these buckets have reached, each once per window, with an audit row and
 * a webhook event. Call it in the transaction that adds to the buckets. A principal's own sum under a policy of another scope is not limited, and reaches
 * no threshold.
 */
export async function recordThresholds(
  tx: Tx,
  bucketKeys: readonly string[],
  now: Date,
): Promise<ThresholdReached[]> {
  if (bucketKeys.length === 0) return [];
  // IS TRUE makes it a look-up in a hash. A join may compare each row with each.
  const isRecorded = sql`((bucket_key, percent) IN (SELECT bucket_key, percent FROM recorded)) IS TRUE`;
  const { rows } = await sql<{
    bucket_key: string;
    policy_id: string;
    subject: string;
    window_start: Date;
    percent: number;
    limit_nano_usd: bigint;
    spent_nano_usd: bigint;
  }>`
    WITH reached AS (
      SELECT bucket.bucket_key, bucket.policy_id, bucket.subject, bucket.window_start, bucket.spent_nano_usd,
             counter.limit_nano_usd, threshold.percent
      FROM unnest(${arrayLiteral(bucketKeys)}::text[]) AS added (bucket_key)
      CROSS JOIN LATERAL (
        SELECT * FROM spend_buckets AS named WHERE named.bucket_key = added.bucket_key LIMIT 1
      ) AS bucket
      CROSS JOIN LATERAL (${definitionOf(sql.ref('bucket.policy_id'), sql.ref('bucket.subject'))}) AS policies
      CROSS JOIN LATERAL (SELECT ${limitAt(sql.ref('bucket.subject'), now)} AS limit_nano_usd) AS counter
      CROSS JOIN LATERAL unnest(policies.thresholds) AS threshold (percent)
      WHERE policies.counter_version = bucket.counter_version
        AND cardinality(policies.thresholds) > 0 AND policies.enforcement <> 'off'
        AND coalesce(policies.counter_scope = split_part(bucket.subject, ':', 1), true)
        AND bucket.spent_nano_usd >= counter.limit_nano_usd::numeric * threshold.percent / 100
        -- A row beside a folded window has only what came late, which is not what the window spent.
        AND (
          SELECT count(*) FROM spend_by_month AS folded
          WHERE folded.policy_id = bucket.policy_id AND folded.counter_version = bucket.counter_version
            AND folded.subject = bucket.subject AND folded.month = date_trunc('month', bucket.window_start, 'UTC')
            AND folded.folded_to >= bucket.window_start
        ) = 0
    ), recorded AS (
      INSERT INTO budget_thresholds_reached (bucket_key, percent, reached_at)
      SELECT bucket_key, percent, ${now} FROM reached ORDER BY bucket_key, percent
      ON CONFLICT DO NOTHING
      RETURNING bucket_key, percent
    ), audited AS (
      INSERT INTO audit_log (at, actor_principal_id, action, resource_id, detail)
      SELECT ${now}, 'metering', 'policy.threshold_reached', split_part(policy_id, '.', 1), jsonb_strip_nulls(jsonb_build_object(
        'limit_id', nullif(split_part(policy_id, '.', 2), ''), 'percent', percent, 'subject', subject,
        'window_start', to_char(window_start AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'spent_micro_usd', CASE unit WHEN '' THEN (spent_nano_usd + 500) / 1000 END,
        'limit_micro_usd', CASE unit WHEN '' THEN limit_nano_usd / 1000 END,
        'unit', nullif(unit, ''),
        'spent', CASE WHEN unit <> '' THEN spent_nano_usd END, 'limit', CASE WHEN unit <> '' THEN limit_nano_usd END))
      FROM reached CROSS JOIN LATERAL split_part(policy_id, '.', 3) AS unit WHERE ${isRecorded}
    )
    SELECT bucket_key, policy_id, subject, window_start, percent, limit_nano_usd, spent_nano_usd
    FROM reached WHERE ${isRecorded}
    ORDER BY policy_id, subject, percent`.execute(tx);
  const events = rows.map((row) => ({
    type: 'budget.threshold' as const,
    onceKey: `${row.bucket_key}/${row.percent}`,
    data: {
      ...counterOf(row.policy_id, row.subject, row.window_start),
      percent: row.percent,
      ...amountFields(unitOf({ policyId: row.policy_id }), {
        limit: row.limit_nano_usd,
        spent: row.spent_nano_usd,
      }),
    },
  }));
  await recordWebhookEvents(tx, events, now);
  return rows.map((row) => ({
    ...definedBy({ policyId: row.policy_id }),
    subject: row.subject,
    windowStart: row.window_start,
    percent: row.percent,
    limit: row.limit_nano_usd,
    spent: row.spent_nano_usd,
  }));
}

const MAX_COUNTERS = 1_000;
/** Transactions of a call. What is left comes with the next one. */
const MAX_PORTIONS = 20;

/**
 * Records the thresholds that counters of the current windows reached without `recordThresholds` being called: by a correction,
 * a release from quarantine, a lowered limit or an override. No further usage may come to trigger it. Counters of policies are looked
 * through; those of further limits, which may be millions, are named by what changed them.
 */
export async function recordOverdueThresholds(db: Database, now: Date): Promise<ThresholdReached[]> {
  const reached = await recordOverdueOfPolicies(db, now);
  for (let portion = 0; portion < MAX_PORTIONS && (await hasDueThresholds(db)); portion++) {
    const further = await db.transaction().execute(async (tx) => {
      return await recordThresholds(tx, await takeDueThresholds(tx, MAX_COUNTERS), now);
    });
    reached.push(...further);
  }
  return reached;
}

async function recordOverdueOfPolicies(db: Database, now: Date): Promise<ThresholdReached[]> {
  const policies = await currentWindows(db, now);
  const { rows } = await sql<{ bucket_key: string }>`
    SELECT DISTINCT bucket.bucket_key
    FROM ${policies}
    JOIN spend_buckets AS bucket ON bucket.policy_id = policies.id
      AND bucket.window_start = policies.window_start AND bucket.counter_version = policies.counter_version
      AND policies.counter_scope = split_part(bucket.subject, ':', 1)
    CROSS JOIN LATERAL unnest(policies.thresholds) AS threshold (percent)
    CROSS JOIN LATERAL (SELECT ${limitAt(sql.ref('bucket.subject'), now)} AS limit_nano_usd) AS counter
    WHERE bucket.spent_nano_usd >= counter.limit_nano_usd::numeric * threshold.percent / 100
      AND NOT EXISTS (
        SELECT FROM budget_thresholds_reached AS recorded
        WHERE recorded.bucket_key = bucket.bucket_key AND recorded.percent = threshold.percent
      )
    LIMIT ${MAX_COUNTERS}`.execute(db);
  if (rows.length === 0) return [];
  const keys = rows.map(({ bucket_key }) => bucket_key);
  return await db.transaction().execute((tx) => recordThresholds(tx, keys, now));
}
