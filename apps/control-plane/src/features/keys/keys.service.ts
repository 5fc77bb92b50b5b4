// Reading, changing and rotating keys. Issuing is in `keyIssuing.service`, revoking in `keyRevocation.service`.

import { isDeepStrictEqual } from 'node:util';
import type { Database, Tx } from '@weighbridge/database';
import { isId, keyHint } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import {
  assertScope,
  type Caller,
  insufficientRole,
  isOperator,
  ledTeamsOf,
  readsAll,
} from '../../shared/caller.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { isInTeams } from '../principals/rights.service.ts';
import { assignablePolicy, governingPolicyOf } from './keyPolicy.ts';
import { assertMayRotate } from './keyRotation.ts';
import { newSecret } from './keySecrets.service.ts';
import {
  expireSecrets,
  findGraceEnds,
  findKey,
  findKeys,
  insertSecret,
  type KeyRow,
  lockKey,
  updateKey,
} from './keys.repository.ts';
import type { IssuedKey, Key, KeyChanges, KeyQuery } from './keys.schemas.ts';
import {
  assertAttributionAllowed,
  assertExpiryAllowed,
  assertNotRevoked,
  deactivatedPrincipal,
  keyFilter,
  parseExpiry,
  toKey,
} from './keys.ts';
import type { Peppers } from './peppers.ts';

export { findExpiringKeys, findKey } from './keys.repository.ts';
export type { KeyRow };

export interface KeyDeps {
  readonly db: Database;
  readonly now: () => Date;
  readonly peppers: Peppers;
}

/**
 * Reads a key of the caller's principal or of one in a team that it leads, or any key for who sees all. Throws a 404 for every
 * other id.
 */
export async function visibleKey(deps: KeyDeps, caller: Caller, id: string): Promise<KeyRow> {
  const key = isId('key', id) ? await findKey(deps.db, id) : undefined;
  if (key && (readsAll(caller) || (await mayChangeKeysOf(deps.db, caller, key.principal_id)))) return key;
  throw new AppError('not_found', 'key_not_found', 'There is no key with this id.', { param: 'key_id' });
}

/** Whether the caller may issue, change and revoke keys of a principal: its own, those of the teams that it leads, or all. */
export async function mayChangeKeysOf(db: Database, caller: Caller, principalId: string): Promise<boolean> {
  if (isOperator(caller) || principalId === caller.principalId) return true;
  return await isInTeams(db, principalId, ledTeamsOf(caller));
}

export async function readKey(deps: KeyDeps, caller: Caller, id: string): Promise<Key> {
  const row = await visibleKey(deps, caller, id);
  return await presentKey(deps.db, row, deps.now());
}

async function presentKey(db: Database, row: KeyRow, now: Date): Promise<Key> {
  const graceEnds = await findGraceEnds(db, [row.id], now);
  return toKey(row, (await governingPolicyOf(db, row)).id, graceEnds.get(row.id));
}

/** The keys that the caller may see, newest first. */
export async function listKeys(deps: KeyDeps, caller: Caller, query: KeyQuery): Promise<PageOf<Key>> {
  const request = pageRequest('keys', query, positionOf(part.time, part.id('key')));
  const [createdAt, id] = request.after ?? [];
  const after = createdAt && id ? { createdAt: new Date(createdAt), id } : undefined;
  const rows = await findKeys(deps.db, keyFilter(caller, query), after, request.size + 1);
  const ids = rows.map(({ id }) => id);
  const graceEnds = await findGraceEnds(deps.db, ids, deps.now());
  return page(
    'keys',
    request,
    rows,
    (row) => [row.created_at.toISOString(), row.id],
    (row) => toKey(row, row.governing_policy_id, graceEnds.get(row.id)),
  );
}

export async function changeKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  input: KeyChanges,
  assertMatch: AssertMatch,
): Promise<Key> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    if (input.policy_id !== undefined) await lockGovernance(tx, 'shared');
    const before = await lockVisibleKey(tx, deps, caller, id);
    assertMatch(await presentKey(tx, before, now));
    assertNotRevoked(before);
    const changes = await permittedChanges(tx, caller, before, input, now);
    const changed = Object.keys(changes);
    if (changed.length === 0) return await presentKey(tx, before, now);
    const after = await updateKey(tx, id, { ...changes, updated_at: now });
    await recordChange(tx, {
      actor: caller,
      action: 'key.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return await presentKey(tx, after, now);
  });
}

/** Replaces the secret of a key. The old one still works for `graceSeconds`. The id and the spend stay. */
export async function rotateKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  graceSeconds: number,
  assertMatch: AssertMatch,
): Promise<IssuedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockVisibleKey(tx, deps, caller, id);
    const policy = await governingPolicyOf(tx, before);
    assertMatch(await presentKey(tx, before, now));
    assertNotRevoked(before);
    await assertMayRotate(tx, caller, before, policy, now);
    const { token, secret } = newSecret(deps.peppers);
    await expireSecrets(tx, id, new Date(now.getTime() + graceSeconds * 1_000));
    await insertSecret(tx, id, secret, now);
    const after = await updateKey(tx, id, { key_hint: keyHint(token), updated_at: now });
    const detail = { grace_seconds: graceSeconds };
    await recordChange(tx, { actor: caller, action: 'key.rotated', resourceId: id, detail, at: now });
    return { ...(await presentKey(tx, after, now)), key: token };
  });
}

type Changes = Parameters<typeof updateKey>[2];

/** The columns that differ from the row; throws if a rule forbids a change. */
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
  Object.assign(changes, disabledChanges(caller, key, input.disabled));
  if (input.expires_at !== undefined) {
    const expiresAt = input.expires_at === null ? null : parseExpiry(input.expires_at, now);
    assertExpiryAllowed(caller, expiresAt);
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
    assertAttributionAllowed(caller, input.attribution);
    if (!isDeepStrictEqual(input.attribution, key.attribution)) {
      changes.attribution = JSON.stringify(input.attribution);
    }
  }
  return changes;
}

function disabledChanges(caller: Caller, key: KeyRow, disabled: boolean | undefined): Changes {
  if (disabled === undefined) return {};
  if (!disabled && key.disabled_with_principal) throw deactivatedPrincipal(key.principal_id);
  if (!disabled && key.disabled_by_operator && !isOperator(caller)) {
    throw new AppError(
      'permission',
      'key_disabled_by_operator',
      'An operator disabled this key, so only an operator can enable it.',
      { param: 'disabled' },
    );
  }
  // If an operator disables a key that its holder disabled, the holder cannot enable it any more.
  const byOperator = disabled && (isOperator(caller) || key.disabled_by_operator);
  return {
    ...(disabled !== key.disabled && { disabled }),
    ...(byOperator !== key.disabled_by_operator && { disabled_by_operator: byOperator }),
  };
}

/** Locks a key that the caller may change. Only an operator may change a key with the scope `operator`. */
export async function lockVisibleKey(tx: Tx, deps: KeyDeps, caller: Caller, id: string): Promise<KeyRow> {
  const key = await visibleKey({ ...deps, db: tx }, caller, id);
  if (key.scopes.includes('operator')) assertScope(caller, 'operator');
  if (!(await mayChangeKeysOf(tx, caller, key.principal_id))) throw insufficientRole('operator');
  return (await lockKey(tx, id)) ?? raise(new Error('a key is never deleted'));
}
