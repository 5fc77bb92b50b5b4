import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChanges } from '../changes/changes.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import {
  countUnknownDescendants,
  findDescendants,
  lockKeysInUse,
  revokeKeys,
} from './keyDescendants.repository.ts';
import { governingPolicyOf } from './keyPolicy.ts';
import { updateKey } from './keys.repository.ts';
import type { RevokedKey } from './keys.schemas.ts';
import { type KeyDeps, lockVisibleKey } from './keys.service.ts';
import { toKey } from './keys.ts';

/** Each adds a row to the audit log and a change to the stream, in one transaction. */
const MAX_DESCENDANTS = 20_000;

/**
 * Revokes a key permanently; with `descendants`, also the keys that were issued with it, with those, and so on. Their rows and
 * their spend stay. Repeating it changes nothing.
 */
export async function revokeKey(
  deps: KeyDeps,
  caller: Caller,
  id: string,
  { descendants }: { readonly descendants: boolean },
  assertMatch: AssertMatch,
): Promise<RevokedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'shared');
    const before = await lockVisibleKey(tx, deps, caller, id);
    const policy = await governingPolicyOf(tx, before);
    assertMatch(toKey(before, policy.id));
    // The governing policy is stored with the key, so that its history survives changes of policies.
    const changes = {
      disabled: true,
      revoked_at: now,
      policy_id: policy.id,
      revoked_source: policy.source,
      updated_at: now,
    };
    const after = before.revoked_at ? before : await updateKey(tx, id, changes);
    const below = descendants ? await lockLiveDescendants(tx, id) : [];
    if (below.length > 0) await revokeKeys(tx, below, now);
    const unknown = descendants ? await countUnknownDescendants(tx, before) : 0;
    const change = { actor: caller, action: 'key.revoked', at: now };
    await recordChanges(tx, [
      ...(before.revoked_at ? [] : [{ ...change, resourceId: id }]),
      ...below.map((resourceId) => ({ ...change, resourceId, detail: { descendant_of: id } })),
    ]);
    return {
      ...toKey(after, policy.id),
      ...(descendants && { descendants: { revoked: below.length, unknown_issuer: unknown } }),
    };
  });
}

/**
 * Locks the keys below a key, and returns those in use. Issuing a key locks its issuer and checks it, so a locked key issues
 * no more; what was issued before the lock is found by looking again. Newer keys have later ids, so all locks are taken in the
 * order of ids, as by all who lock several keys.
 */
async function lockLiveDescendants(tx: Tx, rootId: string): Promise<string[]> {
  const locked = new Set<string>();
  const live: string[] = [];
  for (;;) {
    const found = await findDescendants(tx, rootId, MAX_DESCENDANTS + 1);
    if (found.length > MAX_DESCENDANTS) throw tooManyDescendants();
    const fresh = found.filter((id) => !locked.has(id));
    if (fresh.length === 0) return live;
    live.push(...(await lockKeysInUse(tx, fresh)));
    for (const id of fresh) locked.add(id);
  }
}

function tooManyDescendants(): AppError {
  return new AppError(
    'conflict',
    'too_many_descendants',
    `More than ${MAX_DESCENDANTS} keys descend from this key. Revoke it alone, then revoke the keys that it issued, each with its descendants.`,
    { param: 'descendants' },
  );
}
