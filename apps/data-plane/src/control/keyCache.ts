import type { ResolveResponse } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { LRUCache } from 'lru-cache';
import type { ControlStatus } from './controlState.ts';
import { type KeyEntry, keyEntry, keyMessage } from './keyEntry.ts';
import { type KeyStore, tokenIdOf } from './keyStore.ts';
import { type ResolvedKey, resolvedKey } from './resolvedKey.ts';

export interface KeyCacheDeps {
  readonly store: KeyStore;
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  readonly state: (nowMs: number) => ControlStatus;
  /** Why no key may be used now; undefined as a rule. */
  readonly refusal?: () => AppError | undefined;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
  /** The control plane's clock as far as it is known here, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** Counts look-ups by what they met. */
  readonly count: (met: 'hit' | 'miss') => void;
}

export interface KeyCache {
  /** The key with this token; undefined where there is none. 503 where that can't be told now. */
  find(tokenSha256: Uint8Array): ResolvedKey | undefined | Promise<ResolvedKey | undefined>;
  /** Asks for it anew, whatever is known of it. */
  refresh(tokenSha256: Uint8Array): Promise<ResolvedKey | undefined>;
}

/** So many look-ups at once, and not more: a flood of unknown tokens must not become one of the database. */
const MAX_LOOK_UPS = 512;
/** An answer that was overtaken by a change is asked for again, so many times. */
const MAX_ASKS = 5;
/** Keys that are in use, ready for admission: as many are some megabytes. Others are unpacked when they come, in some 5 µs. */
const MOST_RESOLVED = 4_000;

/**
 * Keys as the control plane told them, until its stream says otherwise. Tokens that nobody knows are not kept: a key that
 * was just created works at once. However many requests want a key, one look-up is under way.
 */
export function createKeyCache({
  store,
  resolve,
  state,
  refusal,
  count,
  nowMs,
  clockMs,
}: KeyCacheDeps): KeyCache {
  const underWay = new Map<string, Promise<KeyEntry | undefined>>();
  const resolved = new LRUCache<KeyEntry, ResolvedKey>({ max: MOST_RESOLVED });

  const keyOf = (entry: KeyEntry): ResolvedKey => {
    const known = resolved.get(entry);
    if (known) return known;
    const key = resolvedKey(keyMessage(entry));
    resolved.set(entry, key);
    return key;
  };
  const keyOfAny = (entry: KeyEntry | undefined) => entry && keyOf(entry);

  async function lookUp(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const look = store.beginLookUp();
    try {
      for (let asked = 0; asked < MAX_ASKS; asked++) {
        const readAtMs = nowMs();
        const { key, revision, maxAgeMs } = await resolve(tokenSha256).catch((error) => {
          throw unreachable(error);
        });
        if (!key) {
          // It may have been known: a secret that was replaced, at the end of its grace.
          store.forget(tokenId);
          return undefined;
        }
        const entry = keyEntry(key, { revision, readAtMs, maxAgeMs });
        if (look.store(tokenId, entry)) return entry;
      }
      throw unreachable(new Error('the key changed faster than it could be read'));
    } finally {
      look.end();
    }
  }

  function singleLookUp(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const pending = underWay.get(tokenId);
    if (pending) return pending;
    if (underWay.size >= MAX_LOOK_UPS) return Promise.reject(tooManyLookUps());
    const started = lookUp(tokenId, tokenSha256).finally(() => underWay.delete(tokenId));
    underWay.set(tokenId, started);
    return started;
  }

  return {
    find(tokenSha256) {
      const at = nowMs();
      const standing = state(at);
      if (standing === 'starting' || standing === 'expired') {
        return Promise.reject(unreachable(`the view is ${standing}`));
      }
      const refused = refusal?.();
      if (refused) return Promise.reject(refused);
      const tokenId = tokenIdOf(tokenSha256);
      const known = store.get(tokenId);
      count(known ? 'hit' : 'miss');
      if (!known) return singleLookUp(tokenId, tokenSha256).then(keyOfAny);
      const key = keyOf(known);
      const isOver = hasWindowEnded(key, at - known.readAtMs, clockMs());
      if (at - known.readAtMs < known.maxAgeMs && !isOver) return key;
      // Nobody waits for it, but for the counters of a new window.
      const refreshed = singleLookUp(tokenId, tokenSha256).catch(() => known);
      return standing === 'live' && isOver ? refreshed.then(keyOfAny) : key;
    },

    refresh: (tokenSha256) => singleLookUp(tokenIdOf(tokenSha256), tokenSha256).then(keyOfAny),
  };
}

/** By how long the control plane said that it lasts, or by its clock: never by this host's. */
function hasWindowEnded(
  { windowRemainingMs, windowEndMs }: ResolvedKey,
  ageMs: number,
  clockMs: number,
): boolean {
  if (windowRemainingMs === undefined || windowEndMs === undefined) return false;
  return ageMs >= windowRemainingMs || clockMs >= windowEndMs;
}

function unreachable(cause: unknown): AppError {
  const message = 'Keys can not be checked right now. Try again.';
  return new AppError('unavailable', 'control_plane_unreachable', message, { cause });
}

function tooManyLookUps(): AppError {
  return new AppError(
    'unavailable',
    'too_many_look_ups',
    'Too many keys are being looked up right now. Try again.',
  );
}
