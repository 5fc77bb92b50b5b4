import type { ResolveResponse } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { LRUCache } from 'lru-cache';
import type { ControlStatus } from './controlState.ts';
import { type KeyEntry, keyEntry, keyMessage } from './keyEntry.ts';
import { type KeyStore, tokenIdOf } from './keyStore.ts';
import type { KeyUses } from './keyUses.ts';
import { type ResolvedKey, resolvedKey } from './resolvedKey.ts';

export interface KeyCacheDeps {
  readonly store: KeyStore;
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  readonly status: (nowMs: number) => ControlStatus;
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

/** Bounds parallel look-ups: a flood of unknown tokens must not overload the database. */
const MAX_LOOK_UPS = 512;
/** How often a look-up is repeated when a change overtakes its response. */
const MAX_TRIES = 5;
/** Decoded keys in use, some megabytes. Decoding another one takes about 5 µs. */
const MAX_DECODED = 4_000;
/** At most a megabyte of tokens: the longest well-formed one has 263 characters. */
const MAX_HASHES = 4_000;
const MAX_HEADER_LENGTH = 300;

/**
 * Looks keys up: in a KeyStore, which only stores them, and else at the control plane. A key is used as it was returned
 * until the control stream invalidates it. Unknown tokens are not cached: a new key works at once. Parallel requests for
 * a key share one look-up.
 */
export function createKeyCache(deps: KeyCacheDeps): KeyCache {
  return new ResolvingKeyCache(deps);
}

class ResolvingKeyCache implements KeyCache {
  readonly uses: KeyCache['uses'];
  readonly hashes = new TokenHashes();
  readonly #deps: KeyCacheDeps;
  readonly #pending = new Map<string, Promise<KeyEntry | undefined>>();
  readonly #decoded = new LRUCache<KeyEntry, ResolvedKey>({ max: MAX_DECODED });

  constructor(deps: KeyCacheDeps) {
    this.#deps = deps;
    this.uses = deps.uses;
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
    count(cached ? 'hit' : 'miss');
    if (!cached) return this.#lookUp(tokenId, tokenSha256);
    const key = this.#decode(cached);
    const ageMs = nowMs - cached.readAtMs;
    const isWindowOver = hasWindowEnded(key, ageMs, this.#deps.clockMs());
    if (ageMs < cached.maxAgeMs && !isWindowOver) return key;
    // Refreshed in the background; only the counters of a new window are worth waiting for.
    const refreshed = this.#entryOf(tokenId, tokenSha256).catch(() => cached);
    return status === 'live' && isWindowOver ? refreshed.then((entry) => entry && this.#decode(entry)) : key;
  }

  refresh(tokenSha256: Uint8Array): Promise<ResolvedKey | undefined> {
    return this.#lookUp(tokenIdOf(tokenSha256), tokenSha256);
  }

  async #lookUp(tokenId: string, tokenSha256: Uint8Array): Promise<ResolvedKey | undefined> {
    const entry = await this.#entryOf(tokenId, tokenSha256);
    return entry && this.#decode(entry);
  }

  /** Joins a look-up of the same token that is already running. */
  #entryOf(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const pending = this.#pending.get(tokenId);
    if (pending) return pending;
    if (this.#pending.size >= MAX_LOOK_UPS) return Promise.reject(tooManyLookUps());
    const started = this.#resolve(tokenId, tokenSha256).finally(() => this.#pending.delete(tokenId));
    this.#pending.set(tokenId, started);
    return started;
  }

  async #resolve(tokenId: string, tokenSha256: Uint8Array): Promise<KeyEntry | undefined> {
    const { store, resolve, nowMs } = this.#deps;
    const lookUp = store.beginLookUp();
    try {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const readAtMs = nowMs();
        const { key, revision, maxAgeMs } = await resolve(tokenSha256).catch((error) => {
          throw unreachable(error);
        });
        if (!key) {
          // It may be cached: a rotated secret whose grace period is over.
          store.forget(tokenId);
          return undefined;
        }
        const entry = keyEntry(key, { revision, readAtMs, maxAgeMs });
        if (lookUp.store(tokenId, entry)) return entry;
      }
      throw unreachable(new Error('the key changed faster than it could be read'));
    } finally {
      lookUp.end();
    }
  }

  #decode(entry: KeyEntry): ResolvedKey {
    const decoded = this.#decoded.get(entry);
    if (decoded) return decoded;
    const key = resolvedKey(keyMessage(entry));
    this.#decoded.set(entry, key);
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

function tooManyLookUps(): AppError {
  const message = 'Too many keys are being looked up right now. Try again.';
  return new AppError('unavailable', 'too_many_look_ups', message);
}
