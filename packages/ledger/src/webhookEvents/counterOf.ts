import { definedBy } from '@weighbridge/budget';

/** The fields of a webhook event that name a counter of a policy in one window. */
export function counterOf(definedById: string, subject: string, windowStart: Date) {
  const { policyId, limitId } = definedBy({ policyId: definedById });
  // A hash stands behind a `#`.
  const end = subject.search(/[:#]/);
  const counter = end < 0 ? subject : subject.slice(0, end);
  const who = end < 0 ? null : subject.slice(end + 1);
  return {
    policy_id: policyId,
    counter,
    key_id: counter === 'key' ? who : null,
    principal_id: counter === 'principal' ? who : null,
    ...(limitId !== undefined && { limit_id: limitId, value: who }),
    window_start: windowStart.toISOString(),
  };
}
