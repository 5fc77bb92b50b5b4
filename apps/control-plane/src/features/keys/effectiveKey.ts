import type { Database, Tx } from '@weighbridge/database';
import { AppError, disabledKey, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type GoverningPolicy, governingPolicy } from '../policies/policies.service.ts';
import { lockPrincipal } from '../principals/writePrincipal.service.ts';
import { findFirstKeyOf, findKey, type KeyRow, lockIssuer } from './keys.repository.ts';

/**
 * The key whose policy and counter apply to a caller, and from which its new keys inherit. A caller with a key uses that
 * key. A caller with an OIDC token uses an equivalent of a key of its principal.
 */
export type EffectiveKey = Pick<
  KeyRow,
  'principal_id' | 'kind' | 'policy_id' | 'revoked_source' | 'attribution' | 'expires_at' | 'issued_by_lead'
> & {
  /** Null: no counter exists yet. */
  readonly counter_key_id: string | null;
};

/** The effective key of a caller, not locked. */
export async function effectiveKeyOf(
  db: Database,
  { identity, principalId, expiresAt }: Caller,
): Promise<EffectiveKey> {
  if (identity.kind === 'key') {
    return (await findKey(db, identity.keyId)) ?? raise(new Error('the calling key does not exist'));
  }
  // All keys that a principal issues with tokens share a counter. Otherwise each token would add a budget.
  const first = await findFirstKeyOf(db, principalId);
  return {
    principal_id: principalId,
    kind: 'user',
    policy_id: null,
    revoked_source: null,
    attribution: {},
    issued_by_lead: false,
    expires_at: expiresAt,
    counter_key_id: first?.counter_key_id ?? null,
  };
}

/**
 * As `effectiveKeyOf`, for issuing a key. Locks a calling key and throws a 401 if it is disabled: whoever revokes it with its
 * descendants misses none. Locks the principal of a token, so that two requests do not both create a first counter.
 */
export async function lockedEffectiveKey(tx: Tx, caller: Caller): Promise<EffectiveKey> {
  const { identity } = caller;
  if (identity.kind === 'oidc') {
    await lockPrincipal(tx, caller.principalId);
    return await effectiveKeyOf(tx, caller);
  }
  const key = (await lockIssuer(tx, identity.keyId)) ?? raise(new Error('the calling key does not exist'));
  return key.disabled ? raise(disabledKey()) : key;
}

/** The policy that governs the caller. Undefined only for a token whose principal has no policy. */
export async function policyOfCaller(db: Database, caller: Caller): Promise<GoverningPolicy | undefined> {
  const { policy_id: policyId, principal_id: principalId, kind } = await effectiveKeyOf(db, caller);
  return await governingPolicy(db, { policyId, principalId, kind });
}

/** The caller's effective key; throws a 403 if no policy governs it. */
export async function governedKeyOf(db: Database, caller: Caller): Promise<EffectiveKey> {
  if (await policyOfCaller(db, caller)) return await effectiveKeyOf(db, caller);
  const message =
    'No policy governs your principal. Ask an operator to assign a policy to it, or to create a default policy.';
  throw new AppError('permission', 'governing_policy_required', message);
}
