import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { POLICY_SUBJECT } from './buckets.ts';

export interface OpenedCounter {
  readonly id: string;
  readonly counter_version: number;
  readonly counter_scope: 'key' | 'principal' | 'policy';
}

/**
 * Opens a policy's new counter, in the transaction that gives it its version, with what the ledger holds for the window
 * that is current then: spend belongs to the window that it was admitted in, whichever counter counted it first.
 */
export async function openCounter(tx: Tx, policy: OpenedCounter, windowStart: Date): Promise<void> {
  const ownSubject = {
    key: sql<string>`'key:' || keys.counter_key_id`,
    principal: sql<string>`'principal:' || events.principal_id`,
    policy: sql<string>`${POLICY_SUBJECT}::text`,
  }[policy.counter_scope];
  const prefix = `${policy.id}/${policy.counter_version}/${windowStart.getTime()}/`;
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT ${prefix}::text || counted.subject, ${policy.id}, ${policy.counter_version}, counted.subject, ${windowStart},
           sum(events.cost_nano_usd)
    FROM usage_events AS events
    JOIN keys ON keys.id = events.key_id
    CROSS JOIN LATERAL (
      SELECT ${ownSubject} AS subject UNION SELECT 'principal:' || events.principal_id
    ) AS counted
    WHERE events.admitted_at >= ${windowStart}
      AND events.buckets @> jsonb_build_array(jsonb_build_object('policy_id', ${policy.id}::text))
    GROUP BY counted.subject
    ORDER BY counted.subject`.execute(tx);
}
