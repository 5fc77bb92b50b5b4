import { bucketAt, bucketKey } from '@weighbridge/budget';
import { arrayLiteral, type Tx } from '@weighbridge/database';
import { type NanoUsd, type WindowKind, windowAt } from '@weighbridge/domain';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { limitAt, type OverriddenCounter } from '../buckets/overrides.ts';
import { deferThresholds, deferThresholdsOf } from './dueThresholds.ts';

/**
 * Copies the limits of policies, or further limits, and their overrides to the buckets of their counters. Call it in the transaction that changes a limit:
 * lease calls in progress end before it, and later ones see the new limit. Leases keep what they hold; if that exceeds the new limit,
 * nothing is granted until enough of it is spent or returned.
 */
export async function setBucketLimits(tx: Tx, policyIds: readonly string[], now: Date): Promise<void> {
  await lockCounters(tx, 'exclusive');
  await sql`
    UPDATE spend_buckets AS bucket SET limit_nano_usd = current.limit_nano_usd
    FROM (
      SELECT spend_buckets.bucket_key, ${limitAt(sql.ref('spend_buckets.subject'), now)} AS limit_nano_usd
      FROM spend_buckets
      CROSS JOIN LATERAL (${definitionOf(sql.ref('spend_buckets.policy_id'), sql.ref('spend_buckets.subject'))}) AS policies
      WHERE spend_buckets.policy_id = ANY(${arrayLiteral(policyIds)}::text[])
        AND spend_buckets.counter_version = policies.counter_version
        -- No lease was ever asked for on the others: they get the limit with the first call.
        AND (spend_buckets.limit_nano_usd IS NOT NULL OR spend_buckets.leased_nano_usd > 0)
    ) AS current
    WHERE bucket.bucket_key = current.bucket_key
      AND bucket.limit_nano_usd IS DISTINCT FROM current.limit_nano_usd`.execute(tx);
  await deferThresholdsOf(tx, policyIds);
}

/**
 * As `setBucketLimits`, of single counters in their current windows, by their keys: beside the counter of a value stand those of all
 * others. Returns the keys of their buckets, whether they exist or not.
 */
export async function setCounterLimits(
  tx: Tx,
  counters: readonly OverriddenCounter[],
  now: Date,
): Promise<string[]> {
  if (counters.length === 0) return [];
  await lockCounters(tx, 'exclusive');
  const { rows } = await sql<{
    policy_id: string;
    subject: string;
    counter_version: number;
    window_kind: WindowKind;
    timezone: string;
    limit: NanoUsd | null;
  }>`
    SELECT named.*, policies.counter_version, policies.window_kind, policies.timezone,
      ${limitAt(sql.ref('named.subject'), now)} AS limit
    FROM unnest(${arrayLiteral(counters.map(({ policyId }) => policyId))}::text[],
                ${arrayLiteral(counters.map(({ subject }) => subject))}::text[]) AS named (policy_id, subject)
    CROSS JOIN LATERAL (${definitionOf(sql.ref('named.policy_id'), sql.ref('named.subject'))}) AS policies`.execute(
    tx,
  );
  const limits = rows.map(({ policy_id: policyId, subject, counter_version: counterVersion, ...row }) => {
    const { start } = windowAt(row.window_kind, row.timezone, now);
    return { key: bucketKey(bucketAt({ policyId, counterVersion, subject }, start)), nano: row.limit };
  });
  await sql`
    UPDATE spend_buckets AS bucket SET limit_nano_usd = current.nano
    FROM unnest(${arrayLiteral(limits.map(({ key }) => key))}::text[], ${arrayLiteral(limits.map(({ nano }) => nano))}::bigint[])
      AS current (key, nano)
    WHERE bucket.bucket_key = current.key AND bucket.limit_nano_usd IS DISTINCT FROM current.nano
      AND (bucket.limit_nano_usd IS NOT NULL OR bucket.leased_nano_usd > 0)`.execute(tx);
  const keys = limits.map(({ key }) => key);
  await deferThresholds(tx, keys);
  return keys;
}
