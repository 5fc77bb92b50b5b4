import { AppError } from '@weighbridge/errors';
import type { Metrics } from '@weighbridge/runtime';

/** What memory was refused to: a request's body, what is held of a response, or a response to be cached. */
export type MemoryUse = 'request' | 'response' | 'cache';

/** Up to this size, a body counts as small. */
const SMALL_BODY_BYTES = 1024 * 1024;
/** Up to this size, a body is not counted by its principal: it would take thousands of connections to matter. */
const UNOWNED_BODY_BYTES = 16 * 1024;

/**
 * The bytes that request bodies, held responses and cached responses together may take in this process, so that its memory
 * stays bounded under any load. To take is to compare and subtract: nothing is allocated.
 */
export class MemoryBudget {
  readonly limitBytes: number;
  readonly #reservedBytes: number;
  /** Of bodies, by principal. */
  readonly #ownedBytes = new Map<string, number>();
  #usedBytes = 0;
  #evict: (bytes: number) => void = () => {};
  #refused: (use: MemoryUse) => void = () => {};

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
    this.#reservedBytes = Math.floor(limitBytes / 4);
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** The largest body that can ever be taken. */
  get maxBodyBytes(): number {
    const { limitBytes } = this;
    return Math.max(limitBytes - this.#reservedBytes, Math.min(SMALL_BODY_BYTES, limitBytes));
  }

  /** False if fewer bytes are free, even after the cache was evicted. What is taken must be released. */
  tryTake(bytes: number, use: MemoryUse = 'response'): boolean {
    // What only saves work leaves the last quarter to requests.
    const limit = use === 'cache' ? this.limitBytes - this.#reservedBytes : this.limitBytes;
    if (this.#fits(bytes, limit)) {
      this.#usedBytes += bytes;
      return true;
    }
    this.#refused(use);
    return false;
  }

  /**
   * Takes `bytes` more for a request's body of `total` bytes. The last quarter of the budget is for small bodies of principals
   * that hold less than a quarter: one that sends many bodies slowly can't keep the others out.
   */
  tryTakeBody(bytes: number, total: number, principalId: string): boolean {
    const isOwned = total > UNOWNED_BODY_BYTES;
    const owned = isOwned ? (this.#ownedBytes.get(principalId) ?? 0) : 0;
    const isGreedy = total > SMALL_BODY_BYTES || owned >= this.#reservedBytes;
    if (!this.#fits(bytes, isGreedy ? this.limitBytes - this.#reservedBytes : this.limitBytes)) {
      this.#refused('request');
      return false;
    }
    this.#usedBytes += bytes;
    if (isOwned) this.#ownedBytes.set(principalId, owned + bytes);
    return true;
  }

  /** Forgets that a principal's body of `bytes` was taken in one or several steps; `release` returns it. */
  disown(bytes: number, principalId: string): void {
    const left = (this.#ownedBytes.get(principalId) ?? 0) - bytes;
    if (left > 0) this.#ownedBytes.set(principalId, left);
    else this.#ownedBytes.delete(principalId);
  }

  /** Counts bytes that are in memory already, free or not. */
  take(bytes: number): void {
    this.#usedBytes += bytes;
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes;
  }

  /** `evict` releases at least this many bytes of what can be given up, or all of it. */
  onShortage(evict: (bytes: number) => void): void {
    this.#evict = evict;
  }

  onRefusal(refused: (use: MemoryUse) => void): void {
    this.#refused = refused;
  }

  #fits(bytes: number, limit: number): boolean {
    const missing = this.#usedBytes + bytes - limit;
    if (missing <= 0) return true;
    if (bytes > limit) return false;
    this.#evict(missing);
    return this.#usedBytes + bytes <= limit;
  }
}

/**
 * What one request holds of the budget. Closing it returns everything, so no way out of a request can forget a part.
 */
export class HeldMemory {
  readonly #budget: MemoryBudget;
  #bytes = 0;
  #owner = '';
  #ownedBytes = 0;
  #isClosed = false;
  #onClose: (() => void) | undefined;

  constructor(budget: MemoryBudget) {
    this.#budget = budget;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** For what is held of a response. False if fewer bytes are free. */
  tryTake(bytes: number, use: MemoryUse = 'response'): boolean {
    if (this.#isClosed || !this.#budget.tryTake(bytes, use)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** For `bytes` more of the request's body, which has `total` so far. Throws a 503 if fewer are free. */
  takeBody(bytes: number, total: number, principalId: string): void {
    if (this.#isClosed || !this.#budget.tryTakeBody(bytes, total, principalId)) throw memoryExhausted();
    this.#bytes += bytes;
    if (total <= UNOWNED_BODY_BYTES) return;
    this.#owner = principalId;
    this.#ownedBytes += bytes;
  }

  /** Counts bytes that are in memory already, free or not. */
  take(bytes: number): void {
    if (this.#isClosed) return;
    this.#budget.take(bytes);
    this.#bytes += bytes;
  }

  /** More than is held counts as all of it. */
  release(bytes: number): void {
    const released = Math.min(bytes, this.#bytes);
    this.#budget.release(released);
    this.#bytes -= released;
  }

  /** Frees what was taken, when it is returned; one request has one of these. */
  onClose(free: () => void): void {
    if (this.#isClosed) free();
    else this.#onClose = free;
  }

  close(): void {
    this.#isClosed = true;
    this.#onClose?.();
    this.#onClose = undefined;
    this.release(this.#bytes);
    if (this.#ownedBytes > 0) this.#budget.disown(this.#ownedBytes, this.#owner);
    this.#ownedBytes = 0;
  }
}

function memoryExhausted(): AppError {
  const message = 'This proxy has no memory free for another request of this size. Try again.';
  // Counted, not logged: there may be thousands.
  return new AppError('unavailable', 'memory_budget_exhausted', message, { isLogged: false });
}

export function addMemoryMetrics(metrics: Metrics, budget: MemoryBudget): void {
  metrics.gauge(
    'weighbridge_memory_budget_bytes',
    'The most bytes of request bodies, held responses and cached responses.',
    () => budget.limitBytes,
  );
  metrics.gauge(
    'weighbridge_memory_budget_used_bytes',
    'Bytes of request bodies, held responses and cached responses.',
    () => budget.usedBytes,
  );
  const refusals = metrics.counterFamily(
    'weighbridge_memory_refusals_total',
    'How often too little of the memory budget was free, by what it was for.',
    ['use'],
  );
  budget.onRefusal((use) => refusals.of(use).add(1));
}
