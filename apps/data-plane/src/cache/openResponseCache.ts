import type { KeyValueBucket, KeyValueSettings } from '@weighbridge/bus';
import type { Metrics } from '@weighbridge/runtime';
import { describeCache } from './cacheMetrics.ts';
import { createMemoryLevel } from './memoryLevel.ts';
import { createResponseCache, type ResponseCache } from './responseCache.ts';
import { createSharedLevel } from './sharedLevel.ts';

/** What makes the answers of several proxies one. */
export interface SharedAnswers {
  readonly bucket: KeyValueBucket;
  readonly sealingKey: Buffer;
  /** How long a request waits for them; 50 where it is left out. */
  readonly waitMs?: number;
}

const DAY_MS = 86_400_000;
/** Of an answer as it goes there; a server of NATS takes a little more, unless it was told otherwise. */
const MAX_VALUE_BYTES = 1_000_000;

/** The settings that decide how that bucket should be. */
export const ANSWERS_SET_BY = 'NATS_BUCKET_REPLICAS and RESPONSE_CACHE_SHARED_MAX_BYTES';

/** The bucket of the shared level. Answers are kept there for a day at most, however long a policy keeps them. */
export function answersBucket(size: {
  readonly maxBytes: number;
  readonly replicas: number;
}): KeyValueSettings {
  return { name: 'RESPONSE_CACHE', ttlMs: DAY_MS, maxValueBytes: MAX_VALUE_BYTES, ...size };
}

export function openResponseCache(
  maxBytes: number,
  shared: SharedAnswers | undefined,
  metrics: Metrics,
): ResponseCache {
  const memory = createMemoryLevel(maxBytes);
  const events = describeCache(metrics, memory);
  const level = shared && {
    ...shared,
    maxValueBytes: MAX_VALUE_BYTES,
    nowMs: () => performance.now(),
    ...events,
  };
  return createResponseCache({
    memory,
    shared: level && createSharedLevel(level),
    wallMs: () => Date.now(),
    ...events,
  });
}
