import type { Metrics } from '@weighbridge/runtime';
import type { MemoryTier } from './memoryTier.ts';
import type { CacheResult } from './responseCache.ts';

/** The events of the response cache that are counted. */
export interface CacheEvents {
  readonly onLookUp: (result: CacheResult) => void;
  readonly onStored: () => void;
  readonly onError: (operation: 'get' | 'put') => void;
}

export function addCacheMetrics(metrics: Metrics, memory: MemoryTier): CacheEvents {
  metrics.gauge(
    'weighbridge_response_cache_used_bytes',
    'Bytes of the responses that this proxy caches in memory.',
    () => memory.bytes,
  );
  metrics.gauge(
    'weighbridge_response_cache_answers',
    'Responses that this proxy caches in memory.',
    () => memory.responses,
  );
  const lookUps = metrics.counter(
    'weighbridge_response_cache_lookups_total',
    'Lookups in the response cache, by where a response was found.',
    ['met'],
  );
  const stored = metrics.counter(
    'weighbridge_response_cache_kept_total',
    'Responses that were stored in the cache.',
    [],
  );
  const errors = metrics.counter(
    'weighbridge_response_cache_errors_total',
    'Reads and writes of the shared response cache that failed or timed out.',
    ['operation'],
  );
  return {
    onLookUp: (result) => lookUps.inc({ met: result }),
    onStored: () => stored.inc(),
    onError: (operation) => errors.inc({ operation }),
  };
}
