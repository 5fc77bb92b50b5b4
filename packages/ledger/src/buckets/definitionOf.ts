import { OTHERS_SUBJECT } from '@weighbridge/budget';
import { type RawBuilder, sql } from 'kysely';

/**
 * An SQL subquery, for LATERAL: what defines a bucket, be it a policy or an amount of a further limit of one, by the bucket's
 * `policy_id`. One row at most, which is looked up by its key. Only a policy has a `counter_scope`. `limit_nano_usd` is in what the bucket
 * counts; a limit without that amount defines no such bucket.
 */
export function definitionOf(
  policyId: RawBuilder<unknown>,
  subject: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`
    SELECT id, counter_version, counter_scope, window_kind, NULL::text AS window_every, timezone, limit_nano_usd, enforcement,
      thresholds, NULL::integer AS max_counters
    FROM policies WHERE id = ${policyId}
    UNION ALL
    SELECT ${policyId}, further.counter_version, NULL, further.window_kind, further.window_every, further.timezone, amount.units,
      further.enforcement, further.thresholds, further.max_counters
    FROM policies CROSS JOIN LATERAL jsonb_to_recordset(policies.limits) AS further (
      id text, counter_version integer, window_kind text, window_every text, timezone text, limit_nano_usd bigint, others_limit_nano_usd bigint,
      limit_requests bigint, limit_tokens bigint, enforcement text, thresholds integer[], max_counters integer)
    CROSS JOIN LATERAL (SELECT CASE split_part(${policyId}, '.', 3)
      WHEN 'requests' THEN further.limit_requests
      WHEN 'tokens' THEN further.limit_tokens
      WHEN '' THEN CASE WHEN ${subject} = ${OTHERS_SUBJECT} THEN further.others_limit_nano_usd ELSE further.limit_nano_usd END
    END) AS amount (units)
    WHERE policies.id = split_part(${policyId}, '.', 1) AND further.id = split_part(${policyId}, '.', 2)
      AND amount.units IS NOT NULL
    LIMIT 1`;
}
