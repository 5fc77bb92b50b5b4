import type { Metrics } from '@weighbridge/runtime';
import type { MemoryLevel } from './memoryLevel.ts';
import type { Met } from './responseCache.ts';

/** What the response cache tells of itself. */
export interface CacheEvents {
  readonly onLookUp: (met: Met) => void;
  readonly onKept: () => void;
  readonly onError: (operation: 'get' | 'put') => void;
}

export function describeCache(metrics: Metrics, memory: MemoryLevel): CacheEvents {
  metrics.gauge(
    'weighbridge_response_cache_used_bytes',
    'What the answers take that this proxy has at hand.',
    () => memory.bytes,
  );
  metrics.gauge('weighbridge_response_cache_answers', 'How many they are.', () => memory.answers);
  const lookUps = metrics.counter(
    'weighbridge_response_cache_lookups_total',
    'Requests that the response cache was asked for, by where it had an answer.',
    ['met'],
  );
  const kept = metrics.counter('weighbridge_response_cache_kept_total', 'Answers that were kept.', []);
  const errors = metrics.counter(
    'weighbridge_response_cache_errors_total',
    'Questions to the shared store, and answers for it, that it failed or took too long for.',
    ['operation'],
  );
  return {
    onLookUp: (met) => lookUps.inc({ met }),
    onKept: () => kept.inc(),
    onError: (operation) => errors.inc({ operation }),
  };
}
