import { LRUCache } from 'lru-cache';
import { type StoredAnswer, sizeOf } from './storedAnswer.ts';

/** The answers that this proxy has at hand, bounded by bytes: those that were asked for last. */
export interface MemoryLevel {
  get(key: string): StoredAnswer | undefined;
  set(key: string, answer: StoredAnswer): void;
  readonly bytes: number;
  readonly answers: number;
}

export function createMemoryLevel(maxBytes: number): MemoryLevel {
  const known = new LRUCache<string, StoredAnswer>({ maxSize: maxBytes, sizeCalculation: sizeOf });
  return {
    get: (key) => known.get(key),
    set: (key, answer) => void known.set(key, { ...answer, body: ownBytes(answer.body) }),
    get bytes() {
      return known.calculatedSize;
    },
    get answers() {
      return known.size;
    },
  };
}

/** What lies in a larger piece of memory would keep all of that, and only its own part would be counted. */
function ownBytes(bytes: Buffer): Buffer {
  if (bytes.buffer.byteLength === bytes.length) return bytes;
  const own = Buffer.allocUnsafeSlow(bytes.length);
  bytes.copy(own);
  return own;
}
