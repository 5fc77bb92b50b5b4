import { OTHERS_SUBJECT } from '@weighbridge/budget';
import { type RawBuilder, sql } from 'kysely';

/**
 * An SQL subquery, for LATERAL: what defines a bucket, be it a policy or a further limit of one, by the bucket's `policy_id`. One row at
 * most, which is looked up by its key. Only a policy has a `counter_scope`.
 */
export function definitionOf(
  policyId: RawBuilder<unknown>,
  subject: RawBuilder<unknown>,
): RawBuilder<unknown> {
  return sql`
    SELECT id, counter_version, counter_scope, window_kind, timezone, limit_nano_usd, enforcement, thresholds,
      NULL::integer AS max_counters
    FROM policies WHERE id = ${policyId}
    UNION ALL
    SELECT ${policyId}, further.counter_version, NULL, further.window_kind, further.timezone,
      CASE WHEN ${subject} = ${OTHERS_SUBJECT} THEN further.others_limit_nano_usd ELSE further.limit_nano_usd END,
      further.enforcement, further.thresholds, further.max_counters
    FROM policies CROSS JOIN LATERAL jsonb_to_recordset(policies.limits) AS further (
      id text, counter_version integer, window_kind text, timezone text, limit_nano_usd bigint, others_limit_nano_usd bigint,
      enforcement text, thresholds integer[], max_counters integer)
    WHERE policies.id = split_part(${policyId}, '.', 1) AND further.id = split_part(${policyId}, '.', 2)
    LIMIT 1`;
}
