import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { findPresentWindows } from './currentWindows.ts';

/** How much of its limit the fullest counter of a policy has used in its present window. */
export interface BudgetUse {
  readonly policyId: string;
  /** 1 where all of it is spent; above, where a limit was lowered or an attempt cost more than was held. */
  readonly usedRatio: number;
}

const MAX_POLICIES = 1_000;

/** The policies nearest to their limit, at most `limit` of them. Those that limit nothing, or allow nothing, are left out. */
export async function readBudgetUse(db: Database, now: Date, limit: number): Promise<BudgetUse[]> {
  const { policyIds, starts } = await findPresentWindows(db, { now, limit: MAX_POLICIES });
  if (policyIds.length === 0) return [];
  const { rows } = await sql<{ policy_id: string; used: number }>`
    SELECT policies.id AS policy_id, max(bucket.spent_nano_usd / policies.limit_nano_usd::float8) AS used
    FROM unnest(${policyIds}::text[], ${starts}::timestamptz[]) AS present (policy_id, window_start)
    JOIN policies ON policies.id = present.policy_id
    JOIN spend_buckets AS bucket ON bucket.policy_id = present.policy_id
      AND bucket.window_start = present.window_start AND bucket.counter_version = policies.counter_version
      -- Sums of principals beside a counter of another scope are no counters: nothing limits them.
      AND policies.counter_scope = split_part(bucket.subject, ':', 1)
    GROUP BY policies.id ORDER BY used DESC, policies.id LIMIT ${limit}`.execute(db);
  return rows.map(({ policy_id, used }) => ({ policyId: policy_id, usedRatio: used }));
}
