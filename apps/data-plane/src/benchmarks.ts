import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { createKeyCache, type KeyCacheDeps } from './control/keyCache.ts';
import { createKeyStore } from './control/keyStore.ts';
import { openSpool } from './record/spool/spool.ts';
import type { Spool } from './record/spool/types.ts';
import { authenticate } from './request/authenticate.ts';

export { LeaseBook, type LeaseBookDeps } from './budget/leaseBook.ts';
// What the benchmarks measure by itself, apart from a running proxy.
export { type BudgetedPolicy, bucketKey } from './control/keyPolicies.ts';

/** A spool as a proxy has it by default, in a folder that is made. */
export async function openSpoolForBenchmark(dir: string): Promise<Spool> {
  const logger = createLogger('bench');
  logger.level = 'silent';
  const now = () => new Date();
  return await openSpool({ dir, maxBytes: 1024 ** 3, sync: 'process', newId: newUuid, now, logger });
}

/** Authenticates by an `Authorization` header, with a cache of keys that asks for those which it does not know. */
export function openKeyCacheForBenchmark(
  resolve: KeyCacheDeps['resolve'],
): (authorization: string) => Promise<unknown> {
  const keys = createKeyCache({
    store: createKeyStore(1024 ** 3),
    resolve,
    state: () => 'live',
    nowMs: () => performance.now(),
    clockMs: () => Date.now(),
    count: () => {},
  });
  return (authorization) => authenticate(keys, { authorization }, 'openai', Date.now());
}
