import type { Database, Tx } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { type GoverningPolicy, governingPolicy, policyExists } from '../policies/policies.service.ts';
import { policyOfCaller } from './effectiveKey.ts';
import type { KeyRow } from './keys.repository.ts';

/** The policy that will govern a key. Throws a 422 if there is none, and a 403 if the caller may not assign it. */
export async function assignablePolicy(
  tx: Tx,
  caller: Caller,
  key: Parameters<typeof governingPolicy>[1],
): Promise<GoverningPolicy> {
  if (key.policyId !== null && !(await policyExists(tx, key.policyId))) {
    throw new AppError('validation', 'policy_not_found', 'There is no policy with this policy_id.', {
      param: 'policy_id',
    });
  }
  const policy = await governingPolicy(tx, key);
  if (!policy) {
    throw new AppError(
      'validation',
      'governing_policy_required',
      'No policy would govern this key: give a policy_id, or ask an operator for a default policy.',
      { param: 'policy_id' },
    );
  }
  if (await mayAssignPolicy(tx, caller, policy, key)) return policy;
  throw new AppError(
    'permission',
    'policy_not_assignable',
    'You can only assign the policy that governs you, or one with self_service.',
    { param: 'policy_id' },
  );
}

/**
 * Whether the caller may assign a policy to a key: the one that governs it, or to the key of a member of its team the one that
 * governs that member.
 */
export async function mayAssignPolicy(
  tx: Tx,
  caller: Caller,
  policy: GoverningPolicy,
  { principalId, kind }: Pick<Parameters<typeof governingPolicy>[1], 'principalId' | 'kind'>,
): Promise<boolean> {
  if (isOperator(caller) || policy.self_service) return true;
  const own =
    principalId === caller.principalId
      ? await policyOfCaller(tx, caller)
      : await governingPolicy(tx, { policyId: null, principalId, kind });
  return policy.id === own?.id;
}

/** The policy that governs a key now. Throws if there is none, which the governance lock rules out. */
export async function governingPolicyOf(db: Database, row: KeyRow): Promise<GoverningPolicy> {
  const policy = await governingPolicy(db, {
    policyId: row.policy_id,
    principalId: row.principal_id,
    kind: row.kind,
  });
  return policy ?? raise(new Error(`the key ${row.id} has no governing policy`));
}
