import { AppError } from '@weighbridge/errors';

export interface BucketTurnsOptions {
  /** How many calls for one bucket run at a time. */
  readonly perBucket: number;
  /** How many calls wait for their turn; further ones are refused. */
  readonly maxWaiting: number;
  readonly maxWaitMs: number;
}

/** Proxies have a few calls each. */
const MAX_WAITING = 1_000;
/** A lease call has 2 s. */
const MAX_WAIT_MS = 1_500;

/** For a pool of this many connections: calls for one bucket take less than half of it. */
export function leaseTurns(connections: number): BucketTurnsOptions {
  const perBucket = Math.max(1, Math.min(2, Math.floor((connections - 1) / 2)));
  return { perBucket, maxWaiting: MAX_WAITING, maxWaitMs: MAX_WAIT_MS };
}

interface WaitingCall {
  readonly keys: readonly string[];
  readonly start: () => void;
}

/**
 * Lets few calls for one bucket run at a time. In the database each would wait for the bucket's lock, and hold a connection that calls
 * for other buckets need; here it holds none. Calls for a bucket run in the order in which they came.
 */
export class BucketTurns {
  readonly #options: BucketTurnsOptions;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Set<WaitingCall>();
  /** How many of the waiting calls want a bucket. */
  readonly #wanted = new Map<string, number>();

  constructor(options: BucketTurnsOptions) {
    this.#options = options;
  }

  /** How many calls wait. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Runs `work` when it is the turn of all its buckets. Rejects if that takes too long, or if too many wait. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const once = [...new Set(keys)];
    // Behind the calls that wait for one of its buckets.
    if (once.some((key) => this.#isBusy(key) || this.#wanted.has(key))) await this.#wait(once);
    else this.#count(this.#running, once, 1);
    try {
      return await work();
    } finally {
      this.#count(this.#running, once, -1);
      this.#startNext();
    }
  }

  #isBusy(key: string): boolean {
    return (this.#running.get(key) ?? 0) >= this.#options.perBucket;
  }

  async #wait(keys: readonly string[]): Promise<void> {
    if (this.#waiting.size >= this.#options.maxWaiting) throw budgetBusy();
    await new Promise<void>((resolve, reject) => {
      const call: WaitingCall = {
        keys,
        start: () => {
          clearTimeout(timer);
          resolve();
        },
      };
      const timer = setTimeout(() => {
        this.#forget(call);
        reject(budgetBusy());
        this.#startNext();
      }, this.#options.maxWaitMs);
      this.#waiting.add(call);
      this.#count(this.#wanted, keys, 1);
    });
  }

  #startNext(): void {
    // The buckets of earlier calls that still wait: a later call does not overtake them.
    const before = new Set<string>();
    for (const call of this.#waiting) {
      if (call.keys.some((key) => this.#isBusy(key) || before.has(key))) {
        for (const key of call.keys) before.add(key);
        continue;
      }
      this.#forget(call);
      this.#count(this.#running, call.keys, 1);
      call.start();
    }
  }

  #forget(call: WaitingCall): void {
    this.#waiting.delete(call);
    this.#count(this.#wanted, call.keys, -1);
  }

  #count(counts: Map<string, number>, keys: readonly string[], change: 1 | -1): void {
    for (const key of keys) {
      const count = (counts.get(key) ?? 0) + change;
      if (count > 0) counts.set(key, count);
      else counts.delete(key);
    }
  }
}

/** A bucket's lock, or the turn for it, took too long. */
export function budgetBusy(cause?: unknown): AppError {
  const message = 'Too many calls wait for this budget. Retry later.';
  return new AppError('unavailable', 'budget_busy', message, { cause });
}
