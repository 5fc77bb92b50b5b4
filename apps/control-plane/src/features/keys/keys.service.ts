import type { Database, Tx } from '@weighbridge/database';
import { isId, keyHint, type LockedAttribution, mintToken, newId, tokenSha256 } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { type Caller, isOperator } from '../access/caller.ts';
import { recordChange } from '../changes/changes.service.ts';
import { type GoverningPolicy, governingPolicy, policyExists } from '../policies/policies.service.ts';
import {
  anyKeyExists,
  ensurePrincipal,
  findKey,
  findKeyBySecret,
  insertKey,
  type KeyRow,
  lockKey,
  updateKey,
} from './keys.repository.ts';
import {
  checkExpiryAgainst,
  checkMaySetAttribution,
  expiry,
  grantableScopes,
  type KeyChanges,
  keyName,
  type NewKey,
  principalOf,
} from './keys.ts';
import type { Peppers } from './peppers.ts';

export type { KeyRow };

export interface KeyDeps {
  readonly db: Database;
  readonly now: () => Date;
  readonly peppers: Peppers;
}

/** A key as the API shows it. */
export interface PresentedKey {
  readonly id: string;
  readonly name: string;
  readonly kind: 'service' | 'user';
  readonly disabled: boolean;
  readonly expires_at: string | null;
  readonly last_used_at: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly policy_id: string;
  readonly key_hint: string;
  readonly scopes: string[];
  readonly principal_id: string;
  readonly attribution: LockedAttribution;
}

export async function createKey(
  deps: KeyDeps,
  caller: Caller,
  input: NewKey,
): Promise<PresentedKey & { readonly key: string }> {
  const now = deps.now();
  const name = keyName(input.name);
  const scopes = grantableScopes(caller, input.scopes);
  const principalId = principalOf(caller, input.principal_id);
  if (input.attribution) checkMaySetAttribution(caller);

  const token = mintToken();
  const [row, policy] = await deps.db.transaction().execute(async (tx) => {
    const issuer = (await findKey(tx, caller.keyId)) ?? raise(new Error('the calling key is gone'));
    // Where an expiry is left out, a key lives as long as the one that issued it.
    const inherited = isOperator(caller) ? null : issuer.expires_at;
    const expiresAt = input.expires_at
      ? expiry(input.expires_at, now)
      : input.expires_at === null
        ? null
        : inherited;
    checkExpiryAgainst(caller, expiresAt);
    await ensurePrincipal(tx, principalId, now);
    const id = newId('key');
    const kind = input.kind ?? 'service';
    const policyId = input.policy_id ?? (isOperator(caller) ? null : issuer.policy_id);
    const governing = await assignablePolicy(tx, caller, issuer, { policyId, principalId, kind });
    const created = await insertKey(
      tx,
      {
        id,
        name,
        kind,
        principal_id: principalId,
        policy_id: policyId,
        scopes,
        attribution: JSON.stringify(input.attribution ?? (isOperator(caller) ? {} : issuer.attribution)),
        disabled: input.disabled ?? false,
        disabled_by_operator: (input.disabled ?? false) && isOperator(caller),
        expires_at: expiresAt,
        // Under a key-scoped policy nobody mints fresh budgets: the new key draws on its issuer's counter.
        counter_key_id: isOperator(caller) ? id : issuer.counter_key_id,
        key_hint: keyHint(token),
        created_at: now,
        updated_at: now,
      },
      { hash: deps.peppers.hash(tokenSha256(token)), pepperVersion: deps.peppers.currentVersion },
    );
    await recordChange(tx, {
      actor: caller,
      action: 'key.created',
      resourceId: id,
      detail: { name, kind, principal_id: principalId, policy_id: governing.id, scopes },
      at: now,
    });
    return [created, governing] as const;
  });
  return { ...present(row, policy), key: token };
}

/** A key that the caller may see: its own principal's, or any for an operator. Any other is not found. */
export async function visibleKey(deps: KeyDeps, caller: Caller, id: string): Promise<KeyRow> {
  const key = isId('key', id) ? await findKey(deps.db, id) : undefined;
  if (key && (isOperator(caller) || key.principal_id === caller.principalId)) return key;
  throw new AppError('not_found', 'key_not_found', 'There is no key with this id.', { param: 'key_id' });
}

export async function readKey(deps: KeyDeps, caller: Caller, id: string): Promise<PresentedKey> {
  const row = await visibleKey(deps, caller, id);
  return present(row, await governing(deps.db, row));
}

export async function changeKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  input: KeyChanges,
): Promise<PresentedKey> {
  const now = deps.now();
  const [row, policy] = await deps.db.transaction().execute(async (tx) => {
    await visibleKey({ ...deps, db: tx }, caller, id);
    const before = (await lockKey(tx, id)) ?? raise(new Error('a key is never deleted'));
    const changes = await permittedChanges(tx, caller, before, input, now);
    const changed = Object.keys(changes);
    if (changed.length === 0) return [before, await governing(tx, before)] as const;
    const after = await updateKey(tx, id, { ...changes, updated_at: now });
    await recordChange(tx, {
      actor: caller,
      action: 'key.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return [after, await governing(tx, after)] as const;
  });
  return present(row, policy);
}

export async function findKeyByTokenSha256(deps: KeyDeps, sha256: Uint8Array): Promise<KeyRow | undefined> {
  return await findKeyBySecret(deps.db, deps.peppers.hashes(sha256));
}

/**
 * Issues the first key of an empty database, which holds every scope. Returns false, having done nothing, where a key
 * exists. The caller holds the lock that keeps a second control plane from doing the same.
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
  await ensurePrincipal(tx, principalId, now);
  await insertKey(
    tx,
    {
      id,
      name: 'operator',
      kind: 'service',
      principal_id: principalId,
      scopes: [...scopes],
      counter_key_id: id,
      key_hint: keyHint(token),
      created_at: now,
      updated_at: now,
    },
    { hash: deps.peppers.hash(tokenSha256(token)), pepperVersion: deps.peppers.currentVersion },
  );
  await recordChange(tx, {
    actor: { principalId, keyId: null },
    action: 'key.created',
    resourceId: id,
    at: now,
  });
  return true;
}

type Changes = Parameters<typeof updateKey>[2];

/** What really changes, once every rule allows it: a field that keeps its value changes nothing. */
async function permittedChanges(
  tx: Tx,
  caller: Caller,
  key: KeyRow,
  input: KeyChanges,
  now: Date,
): Promise<Changes> {
  const changes: Changes = {};
  if (input.name !== undefined) {
    const name = keyName(input.name);
    if (name !== key.name) changes.name = name;
  }
  if (input.disabled !== undefined && input.disabled !== key.disabled) {
    if (!input.disabled && key.disabled_by_operator && !isOperator(caller)) {
      throw new AppError(
        'permission',
        'key_disabled_by_operator',
        'An operator disabled this key: only one can enable it.',
        {
          param: 'disabled',
        },
      );
    }
    changes.disabled = input.disabled;
    changes.disabled_by_operator = input.disabled && isOperator(caller);
  }
  if (input.expires_at !== undefined) {
    const expiresAt = input.expires_at === null ? null : expiry(input.expires_at, now);
    checkExpiryAgainst(caller, expiresAt);
    if (expiresAt?.getTime() !== key.expires_at?.getTime()) changes.expires_at = expiresAt;
  }
  if (input.policy_id !== undefined && input.policy_id !== key.policy_id) {
    const own = (await findKey(tx, caller.keyId)) ?? raise(new Error('the calling key is gone'));
    await assignablePolicy(tx, caller, own, {
      policyId: input.policy_id,
      principalId: key.principal_id,
      kind: key.kind,
    });
    changes.policy_id = input.policy_id;
  }
  if (input.attribution !== undefined) {
    checkMaySetAttribution(caller);
    changes.attribution = JSON.stringify(input.attribution);
  }
  return changes;
}

/** The policy that will govern a key so assigned; refused where there is none or the caller may not choose it. */
async function assignablePolicy(
  tx: Tx,
  caller: Caller,
  callersKey: KeyRow,
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
  if (isOperator(caller) || policy.self_service) return policy;
  const callers = await governing(tx, callersKey);
  if (policy.id === callers.id) return policy;
  throw new AppError(
    'permission',
    'policy_not_assignable',
    'This key can only give out the policy that governs it, or one marked self_service.',
    { param: 'policy_id' },
  );
}

async function governing(db: Database, row: KeyRow): Promise<GoverningPolicy> {
  const policy = await governingPolicy(db, {
    policyId: row.policy_id,
    principalId: row.principal_id,
    kind: row.kind,
  });
  return policy ?? raise(new Error(`the key ${row.id} has no governing policy`));
}

function present(row: KeyRow, policy: GoverningPolicy): PresentedKey {
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    disabled: row.disabled,
    expires_at: row.expires_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    policy_id: policy.id,
    key_hint: row.key_hint,
    scopes: row.scopes,
    principal_id: row.principal_id,
    attribution: row.attribution as LockedAttribution,
  };
}
