/** The fields of a webhook event that name a counter of a policy in one window. */
export function counterOf(policyId: string, subject: string, windowStart: Date) {
  const colon = subject.indexOf(':');
  const counter = colon < 0 ? subject : subject.slice(0, colon);
  const who = colon < 0 ? null : subject.slice(colon + 1);
  return {
    policy_id: policyId,
    counter,
    key_id: counter === 'key' ? who : null,
    principal_id: counter === 'principal' ? who : null,
    window_start: windowStart.toISOString(),
  };
}
