import { LRUCache } from 'lru-cache';
import { type CachedResponse, sizeOf } from './cachedResponse.ts';

/** The cached responses in this proxy's memory, bounded by bytes; the least recently used are evicted. */
export interface MemoryTier {
  get(key: string): CachedResponse | undefined;
  set(key: string, response: CachedResponse): void;
  readonly bytes: number;
  readonly responses: number;
}

export function createMemoryTier(maxBytes: number): MemoryTier {
  const entries = new LRUCache<string, CachedResponse>({ maxSize: maxBytes, sizeCalculation: sizeOf });
  return {
    get: (key) => entries.get(key),
    set: (key, response) => void entries.set(key, { ...response, body: ownBytes(response.body) }),
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
