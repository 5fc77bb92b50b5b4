import { createKeyCache, type KeyCacheDeps } from './control/keyCache.ts';
import { createKeyStore } from './control/keyStore.ts';
import { authenticate } from './request/authenticate.ts';

// The part that the benchmarks measure apart from a running proxy.

/** Authenticates by an `Authorization` header, with a key cache that looks up unknown keys by `resolve`. */
export function openKeyCacheForBenchmark(
  resolve: KeyCacheDeps['resolve'],
): (authorization: string) => Promise<unknown> {
  const keys = createKeyCache({
    store: createKeyStore(1024 ** 3),
    resolve,
    status: () => 'live',
    stream: () => 1,
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
    count: () => {},
  });
  return async (authorization) =>
    await authenticate(keys, { headers: { authorization }, dialect: 'openai', query: '' }, Date.now());
}
