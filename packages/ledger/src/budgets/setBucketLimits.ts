import type { Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../buckets/successors.ts';

/**
 * Gives the buckets of a policy's counter the policy's limit. To be called in the transaction that changes it: calls for
 * leases under way end before, and those that follow see the new limit. Nothing is taken back of what leases hold; where
 * that is more than the new limit leaves, nothing is granted until it is spent or returned.
 */
export async function setBucketLimits(tx: Tx, policyId: string): Promise<void> {
  await lockCounters(tx, 'exclusive');
  await sql`
    UPDATE spend_buckets AS bucket SET limit_nano_usd = policy.limit_nano_usd
    FROM policies AS policy
    WHERE policy.id = ${policyId} AND bucket.policy_id = policy.id AND bucket.counter_version = policy.counter_version
      AND bucket.limit_nano_usd IS DISTINCT FROM policy.limit_nano_usd
      -- Others were never asked for: they get it with the first call.
      AND (bucket.limit_nano_usd IS NOT NULL OR bucket.leased_nano_usd > 0)`.execute(tx);
}
