import type { Tx } from '@weighbridge/database';
import { keyHint, newId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Caller, isOperator } from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import type { Scope } from '../../shared/scopes.ts';
import { recordChange } from '../changes/changes.service.ts';
import { runOnce } from '../idempotency/idempotency.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { isDeactivated } from '../principals/rights.service.ts';
import { lockPrincipal, writePrincipal } from '../principals/writePrincipal.service.ts';
import { type EffectiveKey, lockedEffectiveKey } from './effectiveKey.ts';
import { assignablePolicy } from './keyPolicy.ts';
import { hashedSecret, newSecret } from './keySecrets.service.ts';
import {
  anyKeyExists,
  countKeysInUse,
  findFirstKeyOf,
  insertKey,
  lockManagedName,
} from './keys.repository.ts';
import type { IssuedKey, NewKey } from './keys.schemas.ts';
import { type KeyDeps, mayChangeKeysOf } from './keys.service.ts';
import {
  assertAttributionAllowed,
  assertExpiryAllowed,
  assertManagedByAllowed,
  deactivatedPrincipal,
  grantableScopes,
  parseExpiry,
  principalNotAllowed,
  principalOf,
  toKey,
} from './keys.ts';

/** A new key whose request was checked. */
interface CheckedKey {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly principalId: string;
}

export interface IssuingDeps extends KeyDeps {
  /** How many keys that are not revoked a principal may have before it can't issue more. Operators may. */
  readonly maxKeysPerPrincipal: number;
}

/**
 * Issues a key. A request repeated under the same `Idempotency-Key` gets the first response again. The key is not pushed to proxies:
 * each looks it up when it is first used (`resolveKey`).
 */
export async function createKey(
  deps: IssuingDeps,
  caller: Caller,
  input: NewKey,
  idempotencyKey: string | undefined,
): Promise<{ readonly result: IssuedKey; readonly replayed: boolean }> {
  const now = deps.now();
  const checked = {
    name: validDisplayName(input.name),
    scopes: grantableScopes(caller, input.scopes),
    principalId: principalOf(caller, input.principal_id),
  };
  if (input.attribution) assertAttributionAllowed(caller, input.attribution);
  assertManagedByAllowed(caller, input.managed_by ?? null);
  return await runOnce(deps.db, { caller, idempotencyKey, body: input, now }, async (tx) => {
    await lockGovernance(tx, 'shared');
    return await issueKey(tx, deps, caller, { ...input, ...checked }, now);
  });
}

/** Issues a key within a transaction that holds the lock of governance. */
export async function issueKey(
  tx: Tx,
  deps: IssuingDeps,
  caller: Caller,
  input: NewKey & CheckedKey,
  now: Date,
): Promise<IssuedKey> {
  const { name, scopes, principalId, kind = 'service' } = input;
  const issuer = await lockedEffectiveKey(tx, caller);
  if (!(await mayChangeKeysOf(tx, caller, principalId))) throw principalNotAllowed();
  const inherited = await inheritedSettings(tx, caller, issuer, principalId);
  const expiresAt = expiryOf(input, inherited.expiresAt, now);
  assertExpiryAllowed(caller, expiresAt);
  await writePrincipal(tx, principalId, {}, now);
  if (await isDeactivated(tx, principalId)) throw deactivatedPrincipal(principalId);
  const id = newId('key');
  const policyId = input.policy_id ?? inherited.policyId;
  const policy = await assignablePolicy(tx, caller, { policyId, principalId, kind });
  if (!isOperator(caller)) await assertRoomForKey(tx, principalId, deps.maxKeysPerPrincipal);
  const managedBy = input.managed_by ?? null;
  if (managedBy !== null && (await lockManagedName(tx, managedBy, name))) throw managedNameTaken(name);
  const { token, secret } = newSecret(deps.peppers);
  const disabled = input.disabled ?? false;
  const row = await insertKey(
    tx,
    {
      id,
      name,
      kind,
      principal_id: principalId,
      policy_id: policyId,
      scopes: [...scopes],
      attribution: JSON.stringify(input.attribution ?? inherited.attribution),
      disabled,
      disabled_by_operator: disabled && isOperator(caller),
      expires_at: expiresAt,
      counter_key_id: inherited.counterKeyId ?? id,
      issued_by_key_id: caller.identity.kind === 'key' ? caller.identity.keyId : null,
      issued_by_lead: inherited.isByLead,
      is_issuer_known: true,
      managed_by: managedBy,
      key_hint: keyHint(token),
      created_at: now,
      updated_at: now,
    },
    secret,
  );
  const detail = { name, kind, principal_id: principalId, policy_id: policy.id, scopes };
  await recordChange(tx, { actor: caller, action: 'key.created', resourceId: id, detail, at: now });
  return { ...toKey(row, policy.id), key: token };
}

function managedNameTaken(name: string): AppError {
  return new AppError(
    'conflict',
    'managed_key_exists',
    `There is a key "${name}" of the owner of these files already. Revoke it first, or choose another name.`,
    { param: 'name' },
  );
}

/**
 * Throws a 409 if the principal has as many keys as it may. Disabled and expired ones count: they can be used again. Locks the
 * principal, so that two requests don't both take the last place.
 */
async function assertRoomForKey(tx: Tx, principalId: string, most: number): Promise<void> {
  await lockPrincipal(tx, principalId);
  if ((await countKeysInUse(tx, principalId, most)) < most) return;
  throw new AppError(
    'conflict',
    'key_limit_reached',
    `Your principal has ${most} keys that are not revoked, which is the most that it may issue. Revoke keys that are not needed, or ask an operator to issue the key.`,
  );
}

/** What a new key gets from its issuer unless the request sets it. An operator's keys inherit nothing. */
async function inheritedSettings(tx: Tx, caller: Caller, issuer: EffectiveKey, principalId: string) {
  if (isOperator(caller)) {
    return { expiresAt: null, policyId: null, attribution: {}, counterKeyId: null, isByLead: false };
  }
  if (principalId !== caller.principalId) {
    // A lead's own policy and counter are not those of its members. All keys that it issues to one of them share a counter.
    await lockPrincipal(tx, principalId);
    const first = await findFirstKeyOf(tx, principalId);
    return {
      expiresAt: issuer.expires_at,
      policyId: null,
      attribution: first?.attribution ?? issuer.attribution,
      counterKeyId: first?.counter_key_id ?? null,
      isByLead: true,
    };
  }
  return {
    expiresAt: issuer.expires_at,
    policyId: issuer.policy_id,
    attribution: issuer.attribution,
    // The new key shares its issuer's counter, so that issuing keys under a key-scoped policy adds no budget.
    counterKeyId: issuer.counter_key_id,
    isByLead: issuer.issued_by_lead,
  };
}

function expiryOf({ expires_at: requested }: NewKey, inherited: Date | null, now: Date): Date | null {
  if (requested) return parseExpiry(requested, now);
  return requested === null ? null : inherited;
}

/**
 * Issues the first key of an empty database, with the given scopes. Returns false, without issuing one, if a key exists.
 * The caller holds a lock against other control planes that start.
 */
export async function issueFirstKey(
  tx: Tx,
  deps: KeyDeps,
  token: string,
  scopes: readonly string[],
): Promise<boolean> {
  if (await anyKeyExists(tx)) return false;
  const now = deps.now();
  const id = newId('key');
  const principalId = 'operator';
  await writePrincipal(tx, principalId, { role: 'operator' }, now);
  await insertKey(
    tx,
    {
      id,
      name: 'operator',
      kind: 'service',
      principal_id: principalId,
      scopes: [...scopes],
      counter_key_id: id,
      is_issuer_known: true,
      key_hint: keyHint(token),
      created_at: now,
      updated_at: now,
    },
    hashedSecret(deps.peppers, token),
  );
  const actor = { principalId, identity: null };
  await recordChange(tx, { actor, action: 'key.created', resourceId: id, at: now });
  return true;
}
