/**
 * A batch: enough for the ledger's largest transaction, 2,000 events of some 400 bytes, also where each message carries
 * few of them.
 */
const MAX_BATCH_MESSAGES = 500;
const MAX_BATCH_BYTES = 800 * 1024;

export interface GatheringOptions {
  /**
   * How long what came first may wait for more, while there is less than a batch: a transaction for a few events costs
   * almost as much as one for two thousand. Nothing waits unless given.
   */
  readonly lingerMs?: number;
}

/** What arrives one by one and is taken in batches. */
export interface Gathering<T> {
  /** How many items nobody has taken yet. */
  readonly size: number;
  add(item: T): void;
  /**
   * Resolves with a batch, or with less where no more came in time; with whatever there is once the signal aborts. Taken
   * items are gone.
   */
  take(signal: AbortSignal): Promise<T[]>;
  /** Puts taken items back where they were, in front. */
  putBack(taken: readonly T[]): void;
  /** Resolves once less than a batch waits to be taken, or when the signal aborts. */
  room(signal: AbortSignal): Promise<void>;
}

export function createGathering<T>(
  bytesOf: (item: T) => number,
  { lingerMs = 0 }: GatheringOptions = {},
): Gathering<T> {
  const items: T[] = [];
  const takers = createWaiters();
  const adders = createWaiters();
  let bytes = 0;
  /** When the first of them came, monotonic. */
  let since = 0;
  const isBatch = () => items.length >= MAX_BATCH_MESSAGES || bytes >= MAX_BATCH_BYTES;
  const lingers = () => (items.length === 0 || isBatch() ? 0 : since + lingerMs - performance.now());

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
      if (items.length === 0) since = performance.now();
      items.push(item);
      bytes += bytesOf(item);
      if (items.length === 1 || isBatch()) takers.wakeOne();
    },
    putBack(taken) {
      items.unshift(...taken);
      for (const item of taken) bytes += bytesOf(item);
      takers.wakeOne();
    },
    async take(signal) {
      for (;;) {
        while (items.length === 0 && !signal.aborted) await takers.wait(signal);
        const ms = lingers();
        if (ms <= 0 || signal.aborted) break;
        await takers.wait(signal, ms);
      }
      const batch = nextBatch();
      adders.wakeOne();
      return batch;
    },
    async room(signal) {
      while (isBatch() && !signal.aborted) await adders.wait(signal);
    },
  };
}

interface Waiters {
  /** Resolves when it is woken, when the signal aborts, or after so long. */
  wait(signal: AbortSignal, ms?: number): Promise<void>;
  wakeOne(): void;
}

function createWaiters(): Waiters {
  const waiting = new Set<() => void>();
  return {
    wait: (signal, ms) =>
      new Promise((resolve) => {
        // The signal outlives each wait: a listener that stayed would be one more for every wait.
        const wake = () => {
          clearTimeout(timer);
          signal.removeEventListener('abort', wake);
          waiting.delete(wake);
          resolve();
        };
        const timer = ms === undefined ? undefined : setTimeout(wake, ms);
        waiting.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      }),
    wakeOne() {
      const [first] = waiting;
      first?.();
    },
  };
}
