/**
 * A batch: enough for the ledger's largest transaction, 2,000 events of some 400 bytes, also where each message carries
 * few of them.
 */
const MAX_BATCH_MESSAGES = 500;
const MAX_BATCH_BYTES = 800 * 1024;

/** What arrives one by one and is taken in batches: whatever has come by the time that somebody asks. */
export interface Gathering<T> {
  /** How many items nobody has taken yet. */
  readonly size: number;
  add(item: T): void;
  /** Resolves with at least one item, or with none once the signal aborts. Taken items are gone. */
  take(signal: AbortSignal): Promise<T[]>;
  /** Puts taken items back where they were, in front. */
  putBack(taken: readonly T[]): void;
  /** Resolves once less than a batch waits to be taken, or when the signal aborts. */
  room(signal: AbortSignal): Promise<void>;
}

export function createGathering<T>(bytesOf: (item: T) => number): Gathering<T> {
  const items: T[] = [];
  const takers = createWaiters();
  const adders = createWaiters();
  let bytes = 0;

  const nextBatch = (): T[] => {
    let count = 0;
    let batchBytes = 0;
    for (const item of items) {
      const itemBytes = bytesOf(item);
      // One at least, however large.
      if (count > 0 && batchBytes + itemBytes > MAX_BATCH_BYTES) break;
      batchBytes += itemBytes;
      count++;
      if (count === MAX_BATCH_MESSAGES) break;
    }
    bytes -= batchBytes;
    return items.splice(0, count);
  };

  return {
    get size() {
      return items.length;
    },
    add(item) {
      items.push(item);
      bytes += bytesOf(item);
      takers.wakeOne();
    },
    putBack(taken) {
      items.unshift(...taken);
      for (const item of taken) bytes += bytesOf(item);
      takers.wakeOne();
    },
    async take(signal) {
      while (items.length === 0 && !signal.aborted) await takers.wait(signal);
      const batch = nextBatch();
      adders.wakeOne();
      return batch;
    },
    async room(signal) {
      while ((items.length >= MAX_BATCH_MESSAGES || bytes >= MAX_BATCH_BYTES) && !signal.aborted) {
        await adders.wait(signal);
      }
    },
  };
}

interface Waiters {
  wait(signal: AbortSignal): Promise<void>;
  wakeOne(): void;
}

function createWaiters(): Waiters {
  const waiting = new Set<() => void>();
  return {
    wait: (signal) =>
      new Promise((resolve) => {
        // The signal outlives each wait: a listener that stayed would be one more for every wait.
        const wake = () => {
          signal.removeEventListener('abort', wake);
          waiting.delete(wake);
          resolve();
        };
        waiting.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      }),
    wakeOne() {
      const [first] = waiting;
      first?.();
    },
  };
}
