import type { Database, Tx } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type GoverningPolicy, governingPolicy } from '../policies/policies.service.ts';
import { findFirstKeyOf, findKey, type KeyRow, lockPrincipal } from './keys.repository.ts';

/**
 * What a caller is measured by: which policy governs it, which counter it draws on, and what its new keys inherit. For a
 * key, all of it is the key's own.
 */
export type EffectiveKey = Pick<
  KeyRow,
  'principal_id' | 'kind' | 'policy_id' | 'revoked_source' | 'attribution' | 'expires_at'
> & {
  /** Null: there is none yet. */
  readonly counter_key_id: string | null;
};

async function effectiveKeyOf(
  db: Database,
  { identity, principalId, expiresAt }: Caller,
): Promise<EffectiveKey> {
  if (identity.kind === 'key') {
    return (await findKey(db, identity.keyId)) ?? raise(new Error('the calling key is gone'));
  }
  // A token has no counter. What one principal issues by tokens shares a counter, or each token would mint a budget.
  const first = await findFirstKeyOf(db, principalId);
  return {
    principal_id: principalId,
    kind: 'user',
    policy_id: null,
    revoked_source: null,
    attribution: {},
    expires_at: expiresAt,
    counter_key_id: first?.counter_key_id ?? null,
  };
}

/** As `effectiveKeyOf`, for who is to issue a key: of two tokens that find no counter, the second waits for the first's. */
export async function lockedEffectiveKey(tx: Tx, caller: Caller): Promise<EffectiveKey> {
  if (caller.identity.kind === 'oidc') await lockPrincipal(tx, caller.principalId);
  return await effectiveKeyOf(tx, caller);
}

/** Undefined where none governs it, which no key comes to. */
export async function policyOfCaller(db: Database, caller: Caller): Promise<GoverningPolicy | undefined> {
  const { policy_id: policyId, principal_id: principalId, kind } = await effectiveKeyOf(db, caller);
  return await governingPolicy(db, { policyId, principalId, kind });
}

/** The caller's standing, and 403 where no policy governs it. */
export async function governedKeyOf(db: Database, caller: Caller): Promise<EffectiveKey> {
  if (await policyOfCaller(db, caller)) return await effectiveKeyOf(db, caller);
  const message =
    'No policy governs your principal. Ask an operator to give it one, or for a default policy.';
  throw new AppError('permission', 'governing_policy_required', message);
}
