import { type CachedResponse, isFresh } from './cachedResponse.ts';
import type { MemoryTier } from './memoryTier.ts';
import type { SharedTier } from './sharedTier.ts';

export interface ResponseCacheDeps {
  readonly memory: MemoryTier;
  /** Undefined if the proxies share no cache. */
  readonly shared: SharedTier | undefined;
  /** Unix milliseconds: proxies compare the age of a response. */
  readonly wallMs: () => number;
  readonly onLookUp: (result: CacheResult) => void;
  readonly onStored: () => void;
}

/** Where a response was found. */
export type CacheResult = 'memory' | 'shared' | 'nowhere';

/** Which cached response a request accepts. */
interface Lookup {
  readonly key: string;
  readonly ttlMs: number;
  /** Whether the request accepts the response: its model could get it now. */
  readonly allows: (response: CachedResponse) => boolean;
}

/** Responses that may answer the same request again. Two tiers: this proxy's memory, and a store that proxies share. */
export interface ResponseCache {
  /** A promise only if the shared store has to be read. */
  find(lookup: Lookup): CachedResponse | undefined | Promise<CachedResponse | undefined>;
  /** A later response to the same request replaces an earlier one. */
  store(key: string, response: Omit<CachedResponse, 'storedAtMs'>): void;
  /** Milliseconds since the response was stored. */
  ageMs(response: CachedResponse): number;
}

export function createResponseCache(deps: ResponseCacheDeps): ResponseCache {
  const { memory, shared, wallMs, onLookUp, onStored } = deps;

  function isAccepted(
    response: CachedResponse | undefined,
    { ttlMs, allows }: Lookup,
  ): response is CachedResponse {
    return response !== undefined && isFresh(response, ttlMs, wallMs()) && allows(response);
  }

  async function findShared(tier: SharedTier, lookup: Lookup): Promise<CachedResponse | undefined> {
    const response = await tier.get(lookup.key);
    const isHit = isAccepted(response, lookup);
    onLookUp(isHit ? 'shared' : 'nowhere');
    if (!isHit) return undefined;
    memory.set(lookup.key, response);
    return response;
  }

  return {
    find(lookup) {
      const response = memory.get(lookup.key);
      if (isAccepted(response, lookup)) {
        onLookUp('memory');
        return response;
      }
      if (shared) return findShared(shared, lookup);
      onLookUp('nowhere');
      return undefined;
    },

    store(key, response) {
      const stored = { ...response, storedAtMs: wallMs() };
      memory.set(key, stored);
      shared?.put(key, stored);
      onStored();
    },

    ageMs: ({ storedAtMs }) => Math.max(0, wallMs() - storedAtMs),
  };
}
