import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ResolveResponseSchema } from '@weighbridge/contracts';
import { keyMessage } from '@weighbridge/state';
import { currentRevision } from '../changes/changes.service.ts';
import { findKeyByTokenSha256 } from '../keys/keySecrets.service.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { type Counter, countersOfKey, replacementsOf } from '../policies/policies.service.ts';

/** A proxy resolves a key again after at most this time, in case its clock missed the start of a window. */
const MAX_KEY_AGE_MS = 60_000;

/** A key with its counters, by the SHA-256 of its token; no key if none has this token. */
export async function resolveKey(
  deps: ModelDeps,
  tokenSha256: Uint8Array,
): Promise<MessageInitShape<typeof ResolveResponseSchema>> {
  // Read before the key: a change committed in between is sent once more by the stream, and never missed.
  const revision = await currentRevision(deps.db);
  const row = await findKeyByTokenSha256(deps, tokenSha256);
  if (!row) return { revision, maxAgeMs: 0 };
  const now = deps.now();
  const { governing, counters, team } = await countersOfKey(deps.db, row, now);
  const replacements = await replacementsOf(deps.db, governing, row, now);
  const ends = [row.expires_at, row.secret_expires_at].filter((at) => at !== null).map((at) => at.getTime());
  // A proxy checks the expiry at every request, so a rotated secret ends on time in each proxy.
  const expiresAt = ends.length > 0 ? new Date(Math.min(...ends)) : null;
  const key = keyMessage({ ...row, expires_at: expiresAt }, { counters, team, replacements }, now);
  const all = [...counters, ...replacements.flatMap((replacement) => replacement.counters)];
  return { key, revision, maxAgeMs: maxAgeMs(all, now) };
}

/** Until the first window ends, and at most MAX_KEY_AGE_MS. */
function maxAgeMs(counters: readonly Counter[], now: Date): number {
  const remaining = counters.flatMap(({ window }) =>
    window.end ? window.end.getTime() - now.getTime() : [],
  );
  return Math.max(1, Math.min(MAX_KEY_AGE_MS, ...remaining));
}
