import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import type { Spool } from '@weighbridge/usage/recording';
import { openSpool } from '@weighbridge/usage/recording';
import { createKeyCache, type KeyCacheDeps } from './control/keyCache.ts';
import { createKeyStore } from './control/keyStore.ts';
import { authenticate } from './request/authenticate.ts';

// The parts that the benchmarks measure apart from a running proxy.

/** A spool with a proxy's default settings, in a folder that is created. */
export async function openSpoolForBenchmark(dir: string): Promise<Spool> {
  const logger = createLogger('bench');
  logger.level = 'silent';
  const now = () => new Date();
  return await openSpool({ dir, maxBytes: 1024 ** 3, sync: 'process', newId: newUuid, now, logger });
}

/** Authenticates by an `Authorization` header, with a key cache that looks up unknown keys by `resolve`. */
export function openKeyCacheForBenchmark(
  resolve: KeyCacheDeps['resolve'],
): (authorization: string) => Promise<unknown> {
  const keys = createKeyCache({
    store: createKeyStore(1024 ** 3),
    resolve,
    status: () => 'live',
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
    count: () => {},
  });
  return async (authorization) =>
    await authenticate(keys, { headers: { authorization }, dialect: 'openai', query: '' }, Date.now());
}
