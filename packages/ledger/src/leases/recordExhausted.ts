import { type BucketState, bucketOfKey, unitOf, windowStartOf } from '@weighbridge/budget';
import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { amountFields } from '../webhookEvents/amountFields.ts';
import { counterOf } from '../webhookEvents/counterOf.ts';
import { recordWebhookEvents } from '../webhookEvents/webhookEvents.ts';

/** A counter by its key, with what it has spent. */
export type ExhaustedCounter = { readonly key: string } & Pick<BucketState, 'limit' | 'spent'>;

/** Records a webhook event for each counter that had no headroom for a request: once for each counter and window, where the policy refuses. */
export async function recordExhausted(
  db: Database,
  exhausted: readonly ExhaustedCounter[],
  now: Date,
): Promise<void> {
  if (exhausted.length === 0) return;
  const policyIds = exhausted.map(({ key }) => bucketOfKey(key).policyId);
  const { rows: refusing } = await sql<{ id: string }>`
    SELECT policies.id FROM unnest(${arrayLiteral([...new Set(policyIds)])}::text[]) AS named (policy_id)
    CROSS JOIN LATERAL (${definitionOf(sql.ref('named.policy_id'), sql`''`)}) AS policies
    WHERE policies.enforcement = 'enforce'`.execute(db);
  const ids = new Set(refusing.map(({ id }) => id));
  const events = exhausted.flatMap(({ key, limit, spent }) => {
    const bucket = bucketOfKey(key);
    const { policyId, subject } = bucket;
    if (limit === null || !ids.has(policyId)) return [];
    const data = {
      ...counterOf(policyId, subject, windowStartOf(bucket)),
      ...amountFields(unitOf(bucket), { limit, spent }),
    };
    return [{ type: 'budget.exhausted' as const, onceKey: key, data }];
  });
  await recordWebhookEvents(db, events, now);
}
