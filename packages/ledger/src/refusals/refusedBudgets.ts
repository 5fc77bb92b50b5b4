import { bucketAt, bucketKey } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { type ExhaustedCounter, recordExhausted } from '../leases/recordExhausted.ts';
import type { RefusalRow, RefusingCounter } from './refusal.ts';

/** Codes of errors by which the limits refuse for the rest of a window. */
const EXHAUSTED: ReadonlyMap<string, RefusingCounter['limits']> = new Map([
  ['budget_exhausted', 'budget'],
  ['request_limit_exhausted', 'limit_requests'],
  ['token_limit_exhausted', 'limit_tokens'],
]);

/**
 * Records webhook events for budgets that refused requests. Most refusals are a proxy's own: it knows from an earlier answer that a
 * counter is used up, and asks for no lease. A refusal that both tell of has one key, so it is recorded once.
 */
export async function recordRefusedBudgets(tx: Tx, rows: readonly RefusalRow[], now: Date): Promise<void> {
  const refused = rows.flatMap(({ code, counter }) =>
    EXHAUSTED.get(code) === counter?.limits && counter ? [counter] : [],
  );
  if (refused.length === 0) return;
  const policyIds = [...new Set(refused.map(({ policy_id }) => policy_id))];
  const { rows: policies } = await sql<{
    id: string;
    counter_version: number;
    limit_nano_usd: bigint | null;
  }>`
    SELECT policies.id, policies.counter_version, policies.limit_nano_usd
    FROM unnest(${arrayLiteral(policyIds)}::text[]) AS named (policy_id)
    CROSS JOIN LATERAL (${definitionOf(sql.ref('named.policy_id'), sql`''`)}) AS policies`.execute(tx);
  const byId = new Map(policies.map((policy) => [policy.id, policy]));
  const exhausted = new Map<string, ExhaustedCounter>();
  for (const { policy_id: policyId, subject, window_start, limit, spent } of refused) {
    const policy = byId.get(policyId);
    if (!policy) continue;
    const counter = { policyId, counterVersion: policy.counter_version, subject };
    const key = bucketKey(bucketAt(counter, new Date(window_start ?? 0)));
    if (exhausted.has(key)) continue;
    exhausted.set(key, {
      key,
      limit: limit === null ? policy.limit_nano_usd : BigInt(limit),
      spent: BigInt(spent ?? 0),
    });
  }
  await recordExhausted(tx, [...exhausted.values()], now);
}
