import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../buckets/lockCounters.ts';
import type { OverrideRow } from '../buckets/overrides.ts';
import { setBucketLimits } from './setBucketLimits.ts';

interface DueOverrides {
  readonly now: Date;
  readonly limit: number;
  /** Undefined: of all policies. */
  readonly policyId?: string;
}

/** Marks overrides whose end has come, and returns them. */
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
    )
    RETURNING *`.execute(tx);
  return rows;
}

/**
 * As `markDueOverrides`, and gives the buckets their policies' limits. The end holds without it, since each lease call compares the
 * time; after it, not even a call that began before the end grants by the override. The lock comes first: whoever changes overrides
 * holds it, so that none waits for another's row.
 */
export async function endDueOverrides(tx: Tx, due: DueOverrides): Promise<OverrideRow[]> {
  await lockCounters(tx, 'exclusive');
  const ended = await markDueOverrides(tx, due);
  for (const policyId of new Set(ended.map(({ policy_id }) => policy_id))) {
    await setBucketLimits(tx, policyId, due.now);
  }
  return ended;
}
