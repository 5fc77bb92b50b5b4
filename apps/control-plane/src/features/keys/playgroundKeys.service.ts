import type { Tx } from '@weighbridge/database';
import type { Caller } from '../../shared/caller.ts';
import { recordChanges } from '../changes/changes.service.ts';
import { runOnce } from '../idempotency/idempotency.service.ts';
import { lockGovernance } from '../policies/governance.ts';
import { lockKeysInUse, revokeKeys } from './keyDescendants.repository.ts';
import { type IssuingDeps, issueKey } from './keyIssuing.service.ts';
import type { IssuedKey } from './keys.schemas.ts';
import {
  deletePlaygroundKeys,
  findPlaygroundKeysOfSession,
  findSupersededPlaygroundKeys,
  insertPlaygroundKey,
} from './playgroundKeys.repository.ts';

const LIFETIME_MS = 15 * 60_000;
/** A principal has at most so many at once; a further one ends the oldest. */
const MOST = 5;

/**
 * Issues a key of the caller's principal that only infers, for 15 minutes at most. It counts where the caller's own requests do, so
 * anyone who may read may have one.
 */
export async function createPlaygroundKey(
  deps: IssuingDeps,
  caller: Caller,
  idempotencyKey: string | undefined,
): Promise<{ readonly result: IssuedKey; readonly replayed: boolean }> {
  const now = deps.now();
  const latest = now.getTime() + LIFETIME_MS;
  const expiresAt = new Date(Math.min(latest, caller.expiresAt?.getTime() ?? latest));
  const { principalId } = caller;
  return await runOnce(deps.db, { caller, idempotencyKey, body: {}, now }, async (tx) => {
    await lockGovernance(tx, 'shared');
    const checked = { name: 'playground', scopes: ['inference'], principalId } as const;
    const input = { ...checked, scopes: [...checked.scopes], expires_at: expiresAt.toISOString() };
    const issued = await issueKey(tx, deps, caller, input, now);
    await insertPlaygroundKey(tx, {
      key_id: issued.id,
      principal_id: principalId,
      session_sha256: caller.sessionSha256 ?? null,
      created_at: now,
    });
    // After its issuer was locked: keys are locked in the order of their ids.
    await endKeys(tx, caller, await findSupersededPlaygroundKeys(tx, { principalId, now, most: MOST }), now);
    return issued;
  });
}

/** Revokes the keys that a session made. */
export async function endPlaygroundKeysOf(
  tx: Tx,
  caller: Caller,
  sessionSha256: Buffer,
  now: Date,
): Promise<void> {
  await lockGovernance(tx, 'shared');
  await endKeys(tx, caller, await findPlaygroundKeysOfSession(tx, sessionSha256), now);
}

async function endKeys(tx: Tx, actor: Caller, ids: readonly string[], now: Date): Promise<void> {
  if (ids.length === 0) return;
  const live = await lockKeysInUse(tx, ids);
  if (live.length > 0) await revokeKeys(tx, live, now);
  await deletePlaygroundKeys(tx, ids);
  await recordChanges(
    tx,
    live.map((resourceId) => ({ actor, action: 'key.revoked', resourceId, at: now })),
  );
}
