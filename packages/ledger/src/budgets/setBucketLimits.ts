import { arrayLiteral, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { definitionOf } from '../buckets/definitionOf.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { limitAt } from '../buckets/overrides.ts';

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
}
