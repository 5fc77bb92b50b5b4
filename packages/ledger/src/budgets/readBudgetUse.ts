import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { limitAt } from '../buckets/overrides.ts';
import { currentWindows } from './currentWindows.ts';

/** How much of its limit a policy's fullest counter has used in the current window. */
export interface BudgetUse {
  readonly policyId: string;
  /** 1: all of it is spent. Above 1: the limit was lowered, or an attempt cost more than its reservation. */
  readonly usedRatio: number;
}

/** At most `limit` policies, the one closest to its limit first. Policies with no limit or a limit of 0 are left out. */
export async function readBudgetUse(db: Database, now: Date, limit: number): Promise<BudgetUse[]> {
  const policies = await currentWindows(db, now);
  const { rows } = await sql<{ policy_id: string; used: number }>`
    SELECT policies.id AS policy_id, max(bucket.spent_nano_usd / counter.limit_nano_usd::float8) AS used
    FROM ${policies}
    JOIN spend_buckets AS bucket ON bucket.policy_id = policies.id
      AND bucket.window_start = policies.window_start AND bucket.counter_version = policies.counter_version
      -- A principal's own sum under a policy of another scope is not limited.
      AND policies.counter_scope = split_part(bucket.subject, ':', 1)
    CROSS JOIN LATERAL (SELECT ${limitAt(sql.ref('bucket.subject'), now)} AS limit_nano_usd) AS counter
    WHERE counter.limit_nano_usd > 0
    GROUP BY policies.id ORDER BY used DESC, policies.id LIMIT ${limit}`.execute(db);
  return rows.map(({ policy_id, used }) => ({ policyId: policy_id, usedRatio: used }));
}
