const MIN_MS = 50;
/** A disk that fails at once, as a full one, is tried this often: the first request after its space is freed need not wait longer. */
const MAX_MS = 250;
/** A disk whose failures are slow holds up every request while it is tried: it is tried less often. */
const TIMES_TAKEN = 4;
const MAX_SLOW_MS = 5_000;

/** Keeps a failing disk from being tried at every request: the delay doubles with each failure. */
export class RetryDelay {
  readonly #now: () => Date;
  /** 0 after a success. */
  #delayMs = 0;
  #failedAtMs = 0;

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** False after a failure, until the delay is over. */
  get isOver(): boolean {
    if (this.#delayMs === 0) return true;
    const sinceMs = this.#now().getTime() - this.#failedAtMs;
    // A negative time: the clock was set back.
    return sinceMs >= this.#delayMs || sinceMs < 0;
  }

  /** The moment at which a try begins, for `failed`. */
  begin(): number {
    return this.#now().getTime();
  }

  failed(begunAtMs: number): void {
    this.#failedAtMs = this.#now().getTime();
    const tookMs = this.#failedAtMs - begunAtMs;
    const doubledMs = Math.min(Math.max(this.#delayMs * 2, MIN_MS), MAX_MS);
    this.#delayMs = Math.min(Math.max(doubledMs, TIMES_TAKEN * tookMs), MAX_SLOW_MS);
  }

  succeeded(): void {
    this.#delayMs = 0;
  }
}
