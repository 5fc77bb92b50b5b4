import type { ResolveResponse } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { LRUCache } from 'lru-cache';
import { type ResolvedKey, resolvedKey } from './resolvedKey.ts';

export interface KeyCacheDeps {
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
}

export interface KeyCache {
  /** The key with this token; undefined where there is none. 503 where that can't be told now. */
  find(tokenSha256: Uint8Array): Promise<ResolvedKey | undefined>;
}

const MAX_KEYS = 100_000;

/**
 * Keys as the control plane last told them, for as long as it lets us go on with that. Tokens that nobody knows are
 * not kept: a key that was just created works at once. However many requests want a key, one look-up is under way.
 */
export function createKeyCache({ resolve }: KeyCacheDeps): KeyCache {
  const known = new LRUCache<string, ResolvedKey>({ max: MAX_KEYS, ttl: 1, ttlResolution: 0 });
  const underWay = new Map<string, Promise<ResolvedKey | undefined>>();

  async function lookUp(id: string, tokenSha256: Uint8Array): Promise<ResolvedKey | undefined> {
    const { key, maxAgeMs } = await resolve(tokenSha256).catch((error) => {
      throw new AppError(
        'unavailable',
        'control_plane_unreachable',
        'Keys can not be checked right now. Try again.',
        {
          cause: error,
        },
      );
    });
    if (!key) return undefined;
    const resolved = resolvedKey(key);
    known.set(id, resolved, { ttl: maxAgeMs });
    return resolved;
  }

  return {
    find(tokenSha256) {
      const id = Buffer.from(tokenSha256).toString('base64');
      const cached = known.get(id);
      if (cached) return Promise.resolve(cached);
      const pending = underWay.get(id) ?? lookUp(id, tokenSha256).finally(() => underWay.delete(id));
      underWay.set(id, pending);
      return pending;
    },
  };
}
