import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../buckets/successors.ts';

/**
 * Copies a policy's limit to the buckets of its counter. Call it in the transaction that changes the limit: lease calls in
 * progress end before it, and later ones see the new limit. Leases keep what they hold; if that exceeds the new limit,
 * nothing is granted until enough of it is spent or returned.
 */
export async function setBucketLimits(tx: Tx, policyId: string): Promise<void> {
  await lockCounters(tx, 'exclusive');
  await sql`
    UPDATE spend_buckets AS bucket SET limit_nano_usd = policy.limit_nano_usd
    FROM policies AS policy
    WHERE policy.id = ${policyId} AND bucket.policy_id = policy.id AND bucket.counter_version = policy.counter_version
      AND bucket.limit_nano_usd IS DISTINCT FROM policy.limit_nano_usd
      -- No lease was ever asked for on the others: they get the limit with the first call.
      AND (bucket.limit_nano_usd IS NOT NULL OR bucket.leased_nano_usd > 0)`.execute(tx);
}
