import { POLICY_SUBJECT } from '@weighbridge/budget';
import type { Tx } from '@weighbridge/database';
import { type Window, type WindowKind, windowAt } from '@weighbridge/domain';
import { sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { mergeSpendWithin } from '../merging/mergeSpend.ts';
import { carryLeases } from './carryLeases.ts';

export interface CounterDefinition {
  readonly id: string;
  readonly counter_version: number;
  readonly counter_scope: 'key' | 'principal' | 'policy';
  readonly window_kind: WindowKind;
  readonly timezone: string;
}

/** Adding up a long window of a busy ledger takes minutes. */
const SUM_TIMEOUT_MS = 600_000;

/**
 * Opens a policy's new counter, in the transaction that increments its version. Its buckets start with the ledger's spend in
 * the window of `now` and later ones: spend belongs to the window of its admission, whichever counter counted it first.
 * Usage recorded later waits for this transaction, and then finds the new counter itself (`findNewerCounters`). What leases hold
 * in earlier counters they hold in the new one as well. Returns the time before which the ledger's rows were dropped, and so
 * aren't in the sums; null if none ever was.
 */
export async function openCounter(tx: Tx, policy: CounterDefinition, now: Date): Promise<Date | null> {
  await lockCounters(tx, 'exclusive');
  await sql`SET LOCAL statement_timeout = ${sql.lit(SUM_TIMEOUT_MS)}`.execute(tx);
  // The sums have it, so the leases that are carried must have settled it.
  await mergeSpendWithin(tx, { policyId: policy.id });
  let at: Date | undefined = now;
  while (at) {
    const window = windowAt(policy.window_kind, policy.timezone, at);
    await sumBuckets(tx, policy, window);
    // A proxy whose clock is ahead may have admitted requests in a later window.
    at = window.end ? await firstAdmitted(tx, policy.id, window.end) : undefined;
  }
  await carryLeases(tx, policy, windowAt(policy.window_kind, policy.timezone, now).start);
  await sql`SET LOCAL statement_timeout TO DEFAULT`.execute(tx);
  // Read after the sums: dropping further rows waits for this transaction.
  const floor = await tx.selectFrom('ledger_floor').select('dropped_before').executeTakeFirstOrThrow();
  return floor.dropped_before;
}

const SUM = boundedSum(sql`sum(spent.nano_usd)`);

async function sumBuckets(tx: Tx, policy: CounterDefinition, { start, end }: Window): Promise<void> {
  const ownSubject = {
    key: sql<string>`'key:' || coalesce(keys.counter_key_id, spent.key_id)`,
    principal: sql<string>`'principal:' || spent.principal_id`,
    policy: sql<string>`${POLICY_SUBJECT}::text`,
  }[policy.counter_scope];
  const prefix = `${policy.id}/${policy.counter_version}/${start.getTime()}/`;
  await sql`
    INSERT INTO spend_buckets (
      bucket_key, policy_id, counter_version, subject, window_start, opening_nano_usd, spent_nano_usd)
    SELECT ${prefix}::text || counted.subject, ${policy.id}, ${policy.counter_version}, counted.subject, ${start},
           ${SUM}, ${SUM}
    FROM (
      SELECT events.key_id, events.principal_id, sum(events.cost_nano_usd) AS nano_usd
      FROM usage_events AS events
      WHERE events.admitted_at >= ${start} AND events.admitted_at < ${end ?? 'infinity'}::timestamptz
        AND ${countsFor(policy.id)}
      GROUP BY events.key_id, events.principal_id
    ) AS spent
    LEFT JOIN keys ON keys.id = spent.key_id
    CROSS JOIN LATERAL (
      SELECT ${ownSubject} AS subject UNION SELECT 'principal:' || spent.principal_id
    ) AS counted
    GROUP BY counted.subject
    ORDER BY counted.subject`.execute(tx);
}

async function firstAdmitted(tx: Tx, policyId: string, from: Date): Promise<Date | undefined> {
  const { rows } = await sql<{ admitted_at: Date }>`
    SELECT events.admitted_at
    FROM usage_events AS events
    WHERE events.admitted_at >= ${from} AND ${countsFor(policyId)}
    ORDER BY events.admitted_at
    LIMIT 1`.execute(tx);
  return rows[0]?.admitted_at;
}

/** Whether an event counts for the policy: bucket keys start with the policy's id. */
function countsFor(policyId: string) {
  return sql`(events.policy_id = ${policyId} OR EXISTS (
    SELECT FROM unnest(events.bucket_keys) AS bucket_key WHERE starts_with(bucket_key, ${`${policyId}/`})))`;
}
