import type { KeyValueBucket } from '@weighbridge/bus';
import { pack, type StoredAnswer, unpack } from './storedAnswer.ts';

export interface SharedLevelDeps {
  readonly bucket: Pick<KeyValueBucket, 'get' | 'put'>;
  /** 32 bytes, the same for all proxies that share. */
  readonly sealingKey: Buffer;
  /** What the bucket takes of one. */
  readonly maxValueBytes: number;
  /** Monotonic. */
  readonly nowMs: () => number;
  /** Told of each look-up and each answer that the store failed. */
  readonly onError: (operation: 'get' | 'put') => void;
  /** How long a request waits for the store. */
  readonly waitMs?: number;
}

/** The answers that all proxies have together. Neither a slow store nor none fails a request: then it has nothing. */
export interface SharedLevel {
  get(key: string): Promise<StoredAnswer | undefined>;
  /** Does not wait. */
  put(key: string, answer: StoredAnswer): void;
}

const WAIT_MS = 50;
/** A store that failed is left alone for so long, so that not every request waits for it. */
const PAUSE_MS = 1_000;
/** Answers on their way to the store; more are not given to it. */
const MAX_UNDER_WAY = 16;

export function createSharedLevel(deps: SharedLevelDeps): SharedLevel {
  const { bucket, sealingKey, maxValueBytes, nowMs, onError, waitMs = WAIT_MS } = deps;
  let underWay = 0;
  let pausedUntilMs = Number.NEGATIVE_INFINITY;

  function failed(operation: 'get' | 'put'): undefined {
    pausedUntilMs = nowMs() + PAUSE_MS;
    onError(operation);
    return undefined;
  }

  async function read(key: string): Promise<StoredAnswer | undefined> {
    const entry = await bucket.get(key);
    return entry && (await unpack(entry.value, key, sealingKey));
  }

  async function write(key: string, answer: StoredAnswer): Promise<void> {
    const packed = await pack(answer, key, sealingKey);
    if (packed.length <= maxValueBytes) await bucket.put(key, packed);
  }

  return {
    async get(key) {
      if (nowMs() < pausedUntilMs) return undefined;
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error('the store took too long')), waitMs);
      });
      try {
        return await Promise.race([read(key), late]);
      } catch {
        return failed('get');
      } finally {
        clearTimeout(timer);
      }
    },

    put(key, answer) {
      if (nowMs() < pausedUntilMs || underWay >= MAX_UNDER_WAY) return;
      underWay++;
      void write(key, answer)
        .catch(() => failed('put'))
        .finally(() => underWay--);
    },
  };
}
