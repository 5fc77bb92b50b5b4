import { arrayLiteral, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../buckets/lockCounters.ts';
import type { OverrideRow } from '../buckets/overrides.ts';
import { setCounterLimits } from './setBucketLimits.ts';

interface DueOverrides {
  readonly now: Date;
  readonly limit: number;
  /** Undefined: of all policies. */
  readonly policyId?: string;
}

/**
 * Marks overrides whose end has come, and returns them. Of all policies, it leaves out those that someone is changing, maybe for
 * seconds: whoever changes an override ends it too.
 */
export async function markDueOverrides(
  tx: Tx,
  { now, limit, policyId }: DueOverrides,
): Promise<OverrideRow[]> {
  const { rows } = await sql<OverrideRow>`
    UPDATE budget_overrides SET ended_at = ends_at
    WHERE id IN (
      SELECT id FROM budget_overrides WHERE ended_at IS NULL AND ends_at <= ${now}
        AND (${policyId ?? null}::text IS NULL OR policy_id = ${policyId ?? null})
      ORDER BY ends_at, id LIMIT ${limit}
      FOR NO KEY UPDATE ${policyId === undefined ? sql`SKIP LOCKED` : sql``}
    )
    RETURNING *`.execute(tx);
  return rows;
}

/**
 * As `markDueOverrides`, and gives the counters their own limits. The end holds without it, since each lease call compares the
 * time; after it, not even a call that began before the end grants by the override. The lock comes first: whoever changes overrides
 * holds it, so that none waits for another's row.
 */
export async function endDueOverrides(tx: Tx, due: DueOverrides): Promise<EndedOverrides> {
  await lockCounters(tx, 'exclusive');
  const ended = await markDueOverrides(tx, due);
  const counters = ended.map(({ policy_id, subject }) => ({ policyId: policy_id, subject }));
  return { ended, bucketKeys: await setCounterLimits(tx, counters, due.now) };
}

interface EndedOverrides {
  readonly ended: readonly OverrideRow[];
  /** Of their counters in the current windows. */
  readonly bucketKeys: readonly string[];
}

/** Ends all overrides of policies or further limits that have no such counters any more, and returns them. */
export async function endOverridesOf(
  tx: Tx,
  policyIds: readonly string[],
  now: Date,
): Promise<OverrideRow[]> {
  if (policyIds.length === 0) return [];
  const { rows } = await sql<OverrideRow>`
    UPDATE budget_overrides SET ended_at = least(ends_at, ${now}::timestamptz)
    WHERE policy_id = ANY (${arrayLiteral(policyIds)}::text[]) AND ended_at IS NULL
    RETURNING *`.execute(tx);
  return rows;
}
