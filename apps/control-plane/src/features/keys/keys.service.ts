import { isDeepStrictEqual } from 'node:util';
import type { Database, Tx } from '@weighbridge/database';
import { isId, keyHint, mintToken, newId, tokenSha256 } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { type Caller, isOperator, requireScope } from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordChange } from '../changes/changes.service.ts';
import { answerOnce } from '../idempotency/idempotency.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { lockedEffectiveKey } from './effectiveKey.ts';
import { assignablePolicy, governing, mayGiveOut } from './keyPolicy.ts';
import {
  anyKeyExists,
  ensurePrincipal,
  expireSecrets,
  findKey,
  findKeyBySecret,
  findKeys,
  type HashedSecret,
  insertKey,
  insertSecret,
  type KeyBySecret,
  type KeyRow,
  lockKey,
  rehashSecret,
  updateKey,
} from './keys.repository.ts';
import {
  checkAttribution,
  checkExpiryAgainst,
  checkMayRotate,
  checkMaySetAttribution,
  expiry,
  grantableScopes,
  type KeyChanges,
  type KeyListQuery,
  keyFilter,
  type NewKey,
  principalOf,
  requireNotRevoked,
} from './keys.ts';
import type { Peppers } from './peppers.ts';
import { type IssuedKey, type PresentedKey, presentKey } from './presentKey.ts';

export type { KeyRow };

export interface KeyDeps {
  readonly db: Database;
  readonly now: () => Date;
  readonly peppers: Peppers;
}

/** Issues a key; a repetition under the same `Idempotency-Key` gets the first answer again. */
export async function createKey(
  deps: KeyDeps,
  caller: Caller,
  input: NewKey,
  idempotencyKey: string | undefined,
): Promise<{ readonly answer: IssuedKey; readonly replayed: boolean }> {
  const now = deps.now();
  const name = validDisplayName(input.name);
  const scopes = grantableScopes(caller, input.scopes);
  const principalId = principalOf(caller, input.principal_id);
  if (input.attribution) {
    checkMaySetAttribution(caller);
    checkAttribution(input.attribution);
  }

  return await answerOnce(deps.db, { caller, idempotencyKey, body: input, now }, async (tx) => {
    await lockGovernance(tx, 'shared');
    const issuer = await lockedEffectiveKey(tx, caller);
    // Where an expiry is left out, a key lives as long as the one that issued it.
    const inherited = isOperator(caller) ? null : issuer.expires_at;
    const asked = input.expires_at === null ? null : inherited;
    const expiresAt = input.expires_at ? expiry(input.expires_at, now) : asked;
    checkExpiryAgainst(caller, expiresAt);
    await ensurePrincipal(tx, principalId, now);
    const id = newId('key');
    const kind = input.kind ?? 'service';
    const policyId = input.policy_id ?? (isOperator(caller) ? null : issuer.policy_id);
    const policy = await assignablePolicy(tx, caller, { policyId, principalId, kind });
    const { token, secret } = newSecret(deps);
    const row = await insertKey(
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
        counter_key_id: isOperator(caller) ? id : (issuer.counter_key_id ?? id),
        key_hint: keyHint(token),
        created_at: now,
        updated_at: now,
      },
      secret,
    );
    const detail = { name, kind, principal_id: principalId, policy_id: policy.id, scopes };
    await recordChange(tx, { actor: caller, action: 'key.created', resourceId: id, detail, at: now });
    return { ...presentKey(row, policy.id), key: token };
  });
}

/** A key that the caller may see: its own principal's, or any for an operator. Any other is not found. */
export async function visibleKey(deps: KeyDeps, caller: Caller, id: string): Promise<KeyRow> {
  const key = isId('key', id) ? await findKey(deps.db, id) : undefined;
  if (key && (isOperator(caller) || key.principal_id === caller.principalId)) return key;
  throw new AppError('not_found', 'key_not_found', 'There is no key with this id.', { param: 'key_id' });
}

export async function readKey(deps: KeyDeps, caller: Caller, id: string): Promise<PresentedKey> {
  const row = await visibleKey(deps, caller, id);
  return presentKey(row, (await governing(deps.db, row)).id);
}

/** The keys that the caller may see, the newest first. */
export async function listKeys(
  deps: KeyDeps,
  caller: Caller,
  query: KeyListQuery,
): Promise<PageOf<PresentedKey>> {
  const request = pageRequest('keys', query, positionOf(part.time, part.id('key')));
  const [createdAt, id] = request.after ?? [];
  const after = createdAt && id ? { createdAt: new Date(createdAt), id } : undefined;
  const rows = await findKeys(deps.db, keyFilter(caller, query), after, request.size + 1);
  return page(
    'keys',
    request,
    rows,
    (row) => [row.created_at.toISOString(), row.id],
    (row) => presentKey(row, row.governing_policy_id),
  );
}

export async function changeKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  input: KeyChanges,
): Promise<PresentedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    if (input.policy_id !== undefined) await lockGovernance(tx, 'shared');
    const before = await lockVisibleKey(tx, deps, caller, id);
    requireNotRevoked(before);
    const changes = await permittedChanges(tx, caller, before, input, now);
    const changed = Object.keys(changes);
    if (changed.length === 0) return presentKey(before, (await governing(tx, before)).id);
    const after = await updateKey(tx, id, { ...changes, updated_at: now });
    await recordChange(tx, {
      actor: caller,
      action: 'key.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return presentKey(after, (await governing(tx, after)).id);
  });
}

/** Ends a key for good. The row and its spend stay; to repeat it changes nothing. */
export async function revokeKey(deps: KeyDeps, caller: Caller, id: string): Promise<PresentedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'shared');
    const before = await lockVisibleKey(tx, deps, caller, id);
    const policy = await governing(tx, before);
    if (before.revoked_at) return presentKey(before, policy.id);
    // What governs it at the end stays with it: policies may go, the key's history does not.
    const changes = {
      disabled: true,
      revoked_at: now,
      policy_id: policy.id,
      revoked_source: policy.source,
      updated_at: now,
    };
    const after = await updateKey(tx, id, changes);
    await recordChange(tx, { actor: caller, action: 'key.revoked', resourceId: id, at: now });
    return presentKey(after, policy.id);
  });
}

/** Gives a key another secret; the old one works for the grace. The id stays, and so the spend. */
export async function rotateKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  graceSeconds: number,
): Promise<IssuedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockVisibleKey(tx, deps, caller, id);
    requireNotRevoked(before);
    const policy = await governing(tx, before);
    checkMayRotate(caller, before, await mayGiveOut(tx, caller, policy));
    const { token, secret } = newSecret(deps);
    await expireSecrets(tx, id, new Date(now.getTime() + graceSeconds * 1_000));
    await insertSecret(tx, id, secret, now);
    const after = await updateKey(tx, id, { key_hint: keyHint(token), updated_at: now });
    const detail = { grace_seconds: graceSeconds };
    await recordChange(tx, { actor: caller, action: 'key.rotated', resourceId: id, detail, at: now });
    return { ...presentKey(after, policy.id), key: token };
  });
}

export async function findKeyByTokenSha256(
  deps: KeyDeps,
  sha256: Uint8Array,
): Promise<KeyBySecret | undefined> {
  const { db, peppers } = deps;
  const key = await findKeyBySecret(db, peppers.hashes(sha256), deps.now());
  // Only who shows a token can have it hashed anew. A newer pepper is that of a control plane of the next settings.
  if (key && key.pepper_version < peppers.currentVersion) {
    const pepperVersion = peppers.currentVersion;
    await rehashSecret(db, key.secret_hash, { hash: peppers.hash(sha256), pepperVersion });
  }
  return key;
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
    hashedSecret(deps, token),
  );
  await recordChange(tx, {
    actor: { principalId, identity: null },
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
    const name = validDisplayName(input.name);
    if (name !== key.name) changes.name = name;
  }
  if (input.disabled !== undefined) {
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
    // One that its holder disabled before stays disabled for good when an operator disables it too.
    const byOperator = input.disabled && (isOperator(caller) || key.disabled_by_operator);
    if (input.disabled !== key.disabled) changes.disabled = input.disabled;
    if (byOperator !== key.disabled_by_operator) changes.disabled_by_operator = byOperator;
  }
  if (input.expires_at !== undefined) {
    const expiresAt = input.expires_at === null ? null : expiry(input.expires_at, now);
    checkExpiryAgainst(caller, expiresAt);
    if (expiresAt?.getTime() !== key.expires_at?.getTime()) changes.expires_at = expiresAt;
  }
  if (input.policy_id !== undefined && input.policy_id !== key.policy_id) {
    await assignablePolicy(tx, caller, {
      policyId: input.policy_id,
      principalId: key.principal_id,
      kind: key.kind,
    });
    changes.policy_id = input.policy_id;
  }
  if (input.attribution !== undefined) {
    checkMaySetAttribution(caller);
    checkAttribution(input.attribution);
    if (!isDeepStrictEqual(input.attribution, key.attribution)) {
      changes.attribution = JSON.stringify(input.attribution);
    }
  }
  return changes;
}

function newSecret(deps: KeyDeps): { token: string; secret: HashedSecret } {
  const token = mintToken();
  return { token, secret: hashedSecret(deps, token) };
}

function hashedSecret({ peppers }: KeyDeps, token: string): HashedSecret {
  return { hash: peppers.hash(tokenSha256(token)), pepperVersion: peppers.currentVersion };
}

/** A key that the caller may change. What an operator holds, only an operator changes: nobody else locks one out. */
async function lockVisibleKey(tx: Tx, deps: KeyDeps, caller: Caller, id: string): Promise<KeyRow> {
  const key = await visibleKey({ ...deps, db: tx }, caller, id);
  if (key.scopes.includes('operator')) requireScope(caller, 'operator');
  return (await lockKey(tx, id)) ?? raise(new Error('a key is never deleted'));
}
