import type { KeyValueBucket } from '@weighbridge/bus';
import { type CachedResponse, decodeSealed, encodeSealed } from './cachedResponse.ts';

export interface SharedTierDeps {
  readonly bucket: Pick<KeyValueBucket, 'get' | 'put'>;
  /** 32 bytes, the same on all proxies that share the cache. */
  readonly sealingKey: Buffer;
  /** The largest value that the bucket takes. */
  readonly maxValueBytes: number;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Called for each read and write that failed. */
  readonly onError: (operation: 'get' | 'put') => void;
  /** How long a request waits for a read. Default: 50. */
  readonly waitMs?: number;
}

/** The cached responses that all proxies share. A slow or failed store is a cache miss and never fails a request. */
export interface SharedTier {
  get(key: string): Promise<CachedResponse | undefined>;
  /** Writes in the background. */
  put(key: string, response: CachedResponse): void;
}

const WAIT_MS = 50;
/** After a failure the store is not used for this long, so that not every request waits for it. */
const PAUSE_MS = 1_000;
/** Concurrent writes; beyond it, a write is dropped. */
const MAX_WRITES = 16;

export function createSharedTier(deps: SharedTierDeps): SharedTier {
  const { bucket, sealingKey, maxValueBytes, nowMs, onError, waitMs = WAIT_MS } = deps;
  let writes = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;

  function pauseAfterError(operation: 'get' | 'put'): undefined {
    pausedUntilMs = nowMs() + PAUSE_MS;
    onError(operation);
    return undefined;
  }

  async function read(key: string): Promise<CachedResponse | undefined> {
    const entry = await bucket.get(key);
    return entry && (await decodeSealed(entry.value, key, sealingKey));
  }

  async function write(key: string, response: CachedResponse): Promise<void> {
    const sealed = await encodeSealed(response, key, sealingKey);
    if (sealed.length <= maxValueBytes) await bucket.put(key, sealed);
  }

  return {
    async get(key) {
      if (nowMs() < pausedUntilMs) return undefined;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('the shared cache did not answer in time')), waitMs);
      });
      try {
        return await Promise.race([read(key), late]);
      } catch {
        return pauseAfterError('get');
      } finally {
        clearTimeout(timer);
      }
    },

    put(key, response) {
      if (nowMs() < pausedUntilMs || writes >= MAX_WRITES) return;
      writes++;
      void write(key, response)
        .catch(() => pauseAfterError('put'))
        .finally(() => writes--);
    },
  };
}
