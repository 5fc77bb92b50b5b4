import { HoldBudget } from '../formats/heldAnswer.ts';
import type { MemoryLevel } from './memoryLevel.ts';
import type { SharedLevel } from './sharedLevel.ts';
import { isFresh, type StoredAnswer } from './storedAnswer.ts';

export interface ResponseCacheDeps {
  readonly memory: MemoryLevel;
  /** Undefined where each proxy has its own answers alone. */
  readonly shared: SharedLevel | undefined;
  /** Unix milliseconds: the age of an answer counts on every proxy. */
  readonly wallMs: () => number;
  readonly onLookUp: (met: Met) => void;
  readonly onKept: () => void;
}

/** Where an answer was found. */
export type Met = 'memory' | 'shared' | 'nowhere';

/** What may be given to a request. */
interface Wanted {
  readonly key: string;
  readonly ttlMs: number;
  /** The model that made it has to be one that the request could go to now. */
  readonly allows: (model: string) => boolean;
}

/** Answers that were given once and may be given again. Two levels: this proxy's memory, and a store that all share. */
export interface ResponseCache {
  /** A promise only where the store has to be asked. */
  find(wanted: Wanted): StoredAnswer | undefined | Promise<StoredAnswer | undefined>;
  /** Of two answers to the same, the later one stays: either is as good. */
  keep(key: string, answer: Omit<StoredAnswer, 'storedAtMs'>): void;
  /** How long ago an answer was given first, in milliseconds. */
  ageMs(answer: StoredAnswer): number;
  /** For streams that may be kept once they have ended. */
  readonly captures: HoldBudget;
}

/** What streams under way may hold together. */
const MAX_CAPTURED_BYTES = 32 * 1024 * 1024;

export function createResponseCache(deps: ResponseCacheDeps): ResponseCache {
  const { memory, shared, wallMs, onLookUp, onKept } = deps;

  function serves(answer: StoredAnswer | undefined, { ttlMs, allows }: Wanted): answer is StoredAnswer {
    return answer !== undefined && isFresh(answer, ttlMs, wallMs()) && allows(answer.model);
  }

  async function findShared(store: SharedLevel, wanted: Wanted): Promise<StoredAnswer | undefined> {
    const answer = await store.get(wanted.key);
    const isServed = serves(answer, wanted);
    onLookUp(isServed ? 'shared' : 'nowhere');
    if (!isServed) return undefined;
    memory.set(wanted.key, answer);
    return answer;
  }

  return {
    captures: new HoldBudget(MAX_CAPTURED_BYTES),

    find(wanted) {
      const answer = memory.get(wanted.key);
      if (serves(answer, wanted)) {
        onLookUp('memory');
        return answer;
      }
      if (shared) return findShared(shared, wanted);
      onLookUp('nowhere');
      return undefined;
    },

    keep(key, answer) {
      const stored = { ...answer, storedAtMs: wallMs() };
      memory.set(key, stored);
      shared?.put(key, stored);
      onKept();
    },

    ageMs: ({ storedAtMs }) => Math.max(0, wallMs() - storedAtMs),
  };
}
