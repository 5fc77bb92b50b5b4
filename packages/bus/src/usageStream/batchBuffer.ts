/** 800 KiB fill the ledger's largest transaction, 2,000 events of about 400 bytes, however few events a message holds. */
const MAX_BATCH_MESSAGES = 500;
const MAX_BATCH_BYTES = 800 * 1024;

export interface BatchBufferOptions {
  /**
   * How long the first item waits for more, while there is less than a batch: a transaction of a few events costs almost
   * as much as one of 2,000. Default: 0.
   */
  readonly lingerMs?: number;
}

/** Collects items one by one and returns them in batches. */
export interface BatchBuffer<T> {
  /** How many items are waiting. */
  readonly size: number;
  add(item: T): void;
  /**
   * Removes and returns a batch, or what arrived within `lingerMs`. When the signal aborts, it returns at once with
   * whatever is there, which may be nothing.
   */
  take(signal: AbortSignal): Promise<T[]>;
  /** Puts taken items back at the front. */
  putBack(taken: readonly T[]): void;
  /** Resolves once less than a batch is waiting, or when the signal aborts. */
  waitForSpace(signal: AbortSignal): Promise<void>;
}

export function createBatchBuffer<T>(
  bytesOf: (item: T) => number,
  { lingerMs = 0 }: BatchBufferOptions = {},
): BatchBuffer<T> {
  const items: T[] = [];
  const takers = createWaiters();
  const adders = createWaiters();
  let bytes = 0;
  /** When the first item came; monotonic. */
  let firstAtMs = 0;
  const isBatch = () => items.length >= MAX_BATCH_MESSAGES || bytes >= MAX_BATCH_BYTES;
  const lingersForMs = () => (items.length === 0 || isBatch() ? 0 : firstAtMs + lingerMs - performance.now());

  const nextBatch = (): T[] => {
    let count = 0;
    let batchBytes = 0;
    for (const item of items) {
      const itemBytes = bytesOf(item);
      // At least one item, however large.
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
      if (items.length === 0) firstAtMs = performance.now();
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
        const ms = lingersForMs();
        if (ms <= 0 || signal.aborted) break;
        await takers.wait(signal, ms);
      }
      const batch = nextBatch();
      adders.wakeOne();
      return batch;
    },
    async waitForSpace(signal) {
      while (isBatch() && !signal.aborted) await adders.wait(signal);
    },
  };
}

interface Waiters {
  /** Resolves when woken, when the signal aborts, or after `ms`. */
  wait(signal: AbortSignal, ms?: number): Promise<void>;
  wakeOne(): void;
}

function createWaiters(): Waiters {
  const waiting = new Set<() => void>();
  return {
    wait: (signal, ms) =>
      new Promise((resolve) => {
        // The signal outlives each wait, so the listener has to be removed.
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
