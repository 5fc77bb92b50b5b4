import type { ResolveResponse } from '@weighbridge/contracts';
import { AppError, raise } from '@weighbridge/errors';
import { type ResolvedKey, resolvedKey } from '@weighbridge/state';
import { LRUCache } from 'lru-cache';
import type { ControlStatus } from './controlState.ts';
import type { KeyEntry } from './keyEntry.ts';
import { type KeyStore, tokenIdOf } from './keyStore.ts';
import type { KeyUses } from './keyUses.ts';
import { LookUpQueue, tooManyLookUps } from './lookUpQueue.ts';

export interface KeyCacheDeps {
  readonly store: KeyStore;
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  readonly status: (nowMs: number) => ControlStatus;
  /** The number of the control stream that announces changes now. */
  readonly stream: () => number;
  /** The error while no key may be used at all; normally undefined. */
  readonly refusal?: () => AppError | undefined;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
  /** The control plane's clock as known here, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** Counts look-ups in the cache. */
  readonly count: (result: 'hit' | 'miss') => void;
  readonly uses?: Pick<KeyUses, 'note'> | undefined;
}

export interface KeyCache {
  /** The key with this token; undefined if none exists. Rejects with a 503 if that can't be determined now. */
  find(tokenSha256: Uint8Array): ResolvedKey | undefined | Promise<ResolvedKey | undefined>;
  /** Looks the key up at the control plane, cached or not. */
  refresh(tokenSha256: Uint8Array): Promise<ResolvedKey | undefined>;
  /** Notes which keys requests use; undefined: no one wants to know. */
  readonly uses?: Pick<KeyUses, 'note'> | undefined;
  /** The SHA-256 of tokens in use, by the header that they come in: hashing one takes as long as the rest of a look-up. */
  readonly hashes?: {
    get(header: string): Uint8Array | undefined;
    set(header: string, sha256: Uint8Array): void;
  };
}

/** Bounds parallel look-ups of tokens that are not cached: a flood of unknown ones must not overload the database. */
const MAX_LOOK_UPS = 512;
/** How often a look-up is repeated when a change overtakes its response. */
const MAX_TRIES = 5;
/** Decoded keys in use, some megabytes. Decoding another one takes about 5 µs. */
const MAX_DECODED = 4_000;
/** At most a megabyte of tokens: the longest well-formed one has 263 characters. */
const MAX_HASHES = 4_000;
const MAX_HEADER_LENGTH = 300;

/**
 * Looks keys up: in a KeyStore, which only stores them, and else at the control plane. A key is used as it was returned, with the
 * current settings of its policies, until a window of its counters ends or the control stream invalidates it. While that stream is
 * silent, and after it reconnected, a key of some age is read again beside the request that uses it. Unknown tokens are not cached:
 * a new key works at once. Parallel requests for a key share one look-up.
 */
export function createKeyCache(deps: KeyCacheDeps): KeyCache {
  return new ResolvingKeyCache(deps);
}

/** A decoded key, and the store's version at which it was last checked. */
interface Decoded {
  readonly key: ResolvedKey;
  /** The revision of the settings of its policies. */
  readonly revision: bigint;
  version: number;
}

class ResolvingKeyCache implements KeyCache {
  readonly uses: KeyCache['uses'];
  readonly hashes = new TokenHashes();
  readonly #deps: KeyCacheDeps;
  readonly #pending = new Map<string, Promise<KeyEntry | undefined>>();
  readonly #queue: LookUpQueue;
  readonly #decoded = new LRUCache<KeyEntry, Decoded>({ max: MAX_DECODED });
  #uncached = 0;

  constructor(deps: KeyCacheDeps) {
    this.#deps = deps;
    this.uses = deps.uses;
    this.#queue = new LookUpQueue(deps.nowMs);
  }

  find(tokenSha256: Uint8Array): ResolvedKey | undefined | Promise<ResolvedKey | undefined> {
    const { store, count } = this.#deps;
    const nowMs = this.#deps.nowMs();
    const status = this.#deps.status(nowMs);
    if (status === 'starting' || status === 'expired') {
      return Promise.reject(unreachable(`the state from the control plane is ${status}`));
    }
    const refusal = this.#deps.refusal?.();
    if (refusal) return Promise.reject(refusal);
    const tokenId = tokenIdOf(tokenSha256);
    const cached = store.get(tokenId);
    const key = cached && this.#decode(cached);
    count(key ? 'hit' : 'miss');
    if (!key) return this.#lookUp(tokenId, tokenSha256);
    const ageMs = nowMs - cached.readAtMs;
    const clockMs = this.#deps.clockMs();
    const isWindowOver = hasWindowEnded(key, ageMs, clockMs);
    if (!isWindowOver && (ageMs < cached.maxAgeMs || this.#isAnnounced(cached, key, status, clockMs)))
      return key;
    // Only the counters of a new window are worth waiting for.
    if (status === 'live' && isWindowOver) return this.#readAgain(tokenId, tokenSha256, cached);
    if (!this.#queue.isFull) this.#entryOf(tokenId, tokenSha256).catch(() => {});
    return key;
  }

  /** Any change would have arrived before the last heartbeat. What has expired by the control plane's clock is not announced. */
  #isAnnounced(
    cached: KeyEntry,
    { expiresAtMs }: ResolvedKey,
    status: ControlStatus,
    clockMs: number,
  ): boolean {
    if (status !== 'live' || cached.stream !== this.#deps.stream()) return false;
    return expiresAtMs === undefined || clockMs < expiresAtMs;
  }

  refresh(tokenSha256: Uint8Array): Promise<ResolvedKey | undefined> {
    return this.#lookUp(tokenIdOf(tokenSha256), tokenSha256);
  }

  /** The key as it is now; as it is cached if that can't be read. */
  async #readAgain(
    tokenId: string,
    tokenSha256: Uint8Array,
    cached: KeyEntry,
  ): Promise<ResolvedKey | undefined> {
    const entry = await this.#entryOf(tokenId, tokenSha256).catch(() => cached);
    // A change may have overtaken it.
    return entry && (this.#decode(entry) ?? (await this.#lookUp(tokenId, tokenSha256)));
  }

  async #lookUp(tokenId: string, tokenSha256: Uint8Array): Promise<ResolvedKey | undefined> {
    const entry = await this.#entryOf(tokenId, tokenSha256);
    return entry && (this.#decode(entry) ?? raise(unreachable(new Error('the key changed meanwhile'))));
  }

  /** Joins a look-up of the same token that is already running. */
  #entryOf(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const pending = this.#pending.get(tokenId);
    if (pending) return pending;
    const isKnown = this.#deps.store.peek(tokenId) !== undefined;
    if (!isKnown && this.#uncached >= MAX_LOOK_UPS) return Promise.reject(tooManyLookUps());
    const resolve = () => this.#resolve(tokenId, tokenSha256);
    if (!isKnown) this.#uncached++;
    const started = (isKnown ? this.#queue.run(resolve) : resolve()).finally(() => {
      this.#pending.delete(tokenId);
      if (!isKnown) this.#uncached--;
    });
    this.#pending.set(tokenId, started);
    return started;
  }

  async #resolve(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const { store, resolve, nowMs, stream: currentStream } = this.#deps;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const lookUp = store.beginLookUp();
      try {
        const readAtMs = nowMs();
        const stream = currentStream();
        const { key, revision, maxAgeMs, changesAnnounced } = await resolve(tokenSha256).catch((error) => {
          throw unreachable(error);
        });
        if (!key) {
          // It may be cached: a rotated secret whose grace period is over.
          store.forget(tokenId);
          return undefined;
        }
        const source = { revision, readAtMs, maxAgeMs, stream: changesAnnounced ? stream : 0 };
        const entry = lookUp.store(tokenId, key, source);
        if (entry) return entry;
      } finally {
        lookUp.end();
      }
    }
    throw unreachable(new Error('the key changed faster than it could be read'));
  }

  /** Undefined if the key must be read again first. */
  #decode(entry: KeyEntry): ResolvedKey | undefined {
    const { store } = this.#deps;
    const { version } = store;
    const decoded = this.#decoded.get(entry);
    if (decoded?.version === version) return decoded.key;
    if (store.isOutdated(entry)) return undefined;
    const revision = store.settingsRevision(entry);
    if (decoded?.revision === revision) {
      decoded.version = version;
      return decoded.key;
    }
    const key = resolvedKey(store.current(entry));
    this.#decoded.set(entry, { key, revision, version });
    return key;
  }
}

/** What a token hashes to does not change: whether it is still one of a key, the store knows. */
class TokenHashes {
  readonly #hashes = new LRUCache<string, Uint8Array>({ max: MAX_HASHES });

  get(header: string): Uint8Array | undefined {
    return this.#hashes.get(header);
  }

  set(header: string, sha256: Uint8Array): void {
    if (header.length <= MAX_HEADER_LENGTH) this.#hashes.set(header, sha256);
  }
}

/** By the remaining time that the control plane gave, or by its clock; never by this host's clock. */
function hasWindowEnded(
  { windowRemainingMs, windowEndMs }: ResolvedKey,
  ageMs: number,
  clockMs: number,
): boolean {
  if (windowRemainingMs === undefined || windowEndMs === undefined) return false;
  return ageMs >= windowRemainingMs || clockMs >= windowEndMs;
}

function unreachable(cause: unknown): AppError {
  const message = 'Keys cannot be checked right now. Try again.';
  return new AppError('unavailable', 'control_plane_unreachable', message, { cause });
}
