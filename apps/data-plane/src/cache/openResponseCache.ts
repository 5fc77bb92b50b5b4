import { CACHE_BUCKET, type KeyValueBucket, type KeyValueSettings } from '@weighbridge/bus';
import type { Metrics } from '@weighbridge/runtime';
import { addCacheMetrics } from './cacheMetrics.ts';
import { createMemoryTier, type MemoryTierLimits } from './memoryTier.ts';
import { createResponseCache, type ResponseCache } from './responseCache.ts';
import { createSharedTier } from './sharedTier.ts';

/** The store in which proxies share their cached responses. */
export interface SharedCache {
  readonly bucket: Pick<KeyValueBucket, 'get' | 'put'>;
  readonly sealingKey: Buffer;
  /** How long a request waits for a read. Default: 50. */
  readonly waitMs?: number;
}

const DAY_MS = 86_400_000;
/** Of a sealed response. A NATS server's default limit for a message is slightly higher. */
const MAX_VALUE_BYTES = 1_000_000;

/** The names of the settings that configure the bucket. */
export const CACHE_BUCKET_SETTINGS = 'NATS_BUCKET_REPLICAS and RESPONSE_CACHE_SHARED_MAX_BYTES';

/** The bucket of the shared tier. It retains responses for a day at most, whatever a policy's time to live is. */
export function cacheBucketSettings(size: {
  readonly maxBytes: number;
  readonly replicas: number;
}): KeyValueSettings {
  return { name: CACHE_BUCKET, ttlMs: DAY_MS, maxValueBytes: MAX_VALUE_BYTES, ...size };
}

export function openResponseCache(
  limits: MemoryTierLimits,
  shared: SharedCache | undefined,
  metrics: Metrics,
): ResponseCache {
  const memory = createMemoryTier(limits);
  const events = addCacheMetrics(metrics, memory);
  const sharedTierDeps = shared && {
    ...shared,
    maxValueBytes: MAX_VALUE_BYTES,
    nowMs: () => performance.now(),
    ...events,
  };
  return createResponseCache({
    memory,
    shared: sharedTierDeps && createSharedTier(sharedTierDeps),
    wallMs: () => Date.now(),
    ...events,
  });
}
