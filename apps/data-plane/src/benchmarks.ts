import { createKeyCache, type KeyCacheDeps } from './control/keyCache.ts';
import type { KeyChange } from './control/keyRows.ts';
import { createKeyStore } from './control/keyStore.ts';
import { authenticate } from './request/authenticate.ts';

// The part that the benchmarks measure apart from a running proxy.

export interface BenchmarkedKeyCache {
  /** By an `Authorization` header. */
  authenticate(authorization: string): Promise<unknown>;
  /** As the control stream does for a change. */
  invalidate(change: Pick<KeyChange, 'keyIds' | 'principalIds' | 'policyIds' | 'revision'>): void;
}

/** A key cache that looks up unknown keys by `resolve`. */
export function openKeyCacheForBenchmark(resolve: KeyCacheDeps['resolve']): BenchmarkedKeyCache {
  const store = createKeyStore(1024 ** 3);
  const keys = createKeyCache({
    store,
    resolve,
    status: () => 'live',
    stream: () => 1,
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
    count: () => {},
  });
  return {
    authenticate: async (authorization) =>
      await authenticate(keys, { headers: { authorization }, dialect: 'openai', query: '' }, Date.now()),
    invalidate: (change) => store.invalidate({ ...change, allKeys: false }),
  };
}
