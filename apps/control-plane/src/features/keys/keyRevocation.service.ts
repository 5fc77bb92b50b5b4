import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { recordChanges } from '../changes/changes.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { countUnknownDescendants, lockKeysIssuedBy, revokeKeys } from './keyDescendants.repository.ts';
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
): Promise<RevokedKey> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    await lockGovernance(tx, 'shared');
    const before = await lockVisibleKey(tx, deps, caller, id);
    const policy = await governingPolicyOf(tx, before);
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
 * The keys in use below a key, level by level. Issuing a key locks its issuer and checks it: so once a level is locked, its
 * keys issue no more, and the next level is complete.
 */
async function lockLiveDescendants(tx: Tx, root: string): Promise<string[]> {
  const live: string[] = [];
  let seen = 0;
  for (let level: readonly string[] = [root]; level.length > 0; ) {
    const issued = await lockKeysIssuedBy(tx, level, MAX_DESCENDANTS - seen + 1);
    seen += issued.length;
    if (seen > MAX_DESCENDANTS) throw tooManyDescendants();
    for (const { id, isRevoked } of issued) if (!isRevoked) live.push(id);
    level = issued.map(({ id }) => id);
  }
  return live;
}

function tooManyDescendants(): AppError {
  return new AppError(
    'conflict',
    'too_many_descendants',
    `More than ${MAX_DESCENDANTS} keys descend from this key. Revoke it alone, then revoke the keys that it issued, each with its descendants.`,
    { param: 'descendants' },
  );
}
