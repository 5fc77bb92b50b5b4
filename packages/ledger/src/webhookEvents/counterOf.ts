import { definedBy, ownerOf } from '@weighbridge/budget';

/** The fields of a webhook event that name a counter of a policy in one window. */
export function counterOf(definedById: string, subject: string, windowStart: Date) {
  const { policyId, limitId } = definedBy({ policyId: definedById });
  const { counter, keyId, principalId, value, valueSha256 } = ownerOf(subject);
  return {
    policy_id: policyId,
    counter,
    key_id: keyId,
    principal_id: principalId,
    ...(limitId !== undefined && { limit_id: limitId, value, value_sha256: valueSha256 }),
    window_start: windowStart.toISOString(),
  };
}
