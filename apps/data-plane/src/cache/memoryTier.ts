import { LRUCache } from 'lru-cache';
import type { MemoryBudget } from '../shared/memoryBudget.ts';
import { type CachedResponse, sizeOf } from './cachedResponse.ts';

/**
 * The cached responses in this proxy's memory, bounded by bytes; the least recently used are evicted, also when the memory
 * budget has no room for a request.
 */
export interface MemoryTier {
  get(key: string): CachedResponse | undefined;
  set(key: string, response: CachedResponse): void;
  readonly bytes: number;
  readonly responses: number;
}

export interface MemoryTierLimits {
  readonly maxBytes: number;
  readonly memory: MemoryBudget;
}

export function createMemoryTier({ maxBytes, memory }: MemoryTierLimits): MemoryTier {
  const entries = new LRUCache<string, CachedResponse>({
    maxSize: maxBytes,
    sizeCalculation: sizeOf,
    dispose: (response) => memory.release(sizeOf(response)),
  });
  memory.onShortage((bytes) => {
    const target = entries.calculatedSize - bytes;
    while (entries.size > 0 && entries.calculatedSize > target) entries.pop();
  });
  return {
    get: (key) => entries.get(key),
    set(key, response) {
      const size = sizeOf(response);
      if (size > maxBytes) return;
      entries.delete(key);
      if (!memory.tryTake(size, 'cache')) return;
      entries.set(key, { ...response, body: ownBytes(response.body) });
    },
    get bytes() {
      return entries.calculatedSize;
    },
    get responses() {
      return entries.size;
    },
  };
}

/** A view of a larger buffer would retain all of it, but only the view would be counted. */
function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength === bytes.length) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
