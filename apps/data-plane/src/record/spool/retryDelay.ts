const MIN_MS = 50;
const MAX_MS = 5_000;

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

  failed(): void {
    this.#failedAtMs = this.#now().getTime();
    this.#delayMs = Math.min(Math.max(this.#delayMs * 2, MIN_MS), MAX_MS);
  }

  succeeded(): void {
    this.#delayMs = 0;
  }
}
