/**
 * closed → open after too many errors; open → half-open after `OPEN_MS`; half-open → closed after a successful attempt, or
 * → open after a failed one.
 */
export type CircuitBreakerState = 'closed' | 'half-open' | 'open';

const SLOT_MS = 1_000;
const SLOTS = 10;
const MIN_ATTEMPTS = 10;
const ERROR_RATIO = 0.5;
/** Opens also a connector with too few requests for a ratio. */
const CONSECUTIVE_ERRORS = 5;
export const OPEN_MS = 5_000;

interface Slot {
  second: number;
  successes: number;
  failures: number;
}

/** Counts the results of attempts at one connector over the last ten seconds. Times are monotonic, in milliseconds. */
export class CircuitBreaker {
  readonly #slots: Slot[] = Array.from({ length: SLOTS }, () => ({ second: -1, successes: 0, failures: 0 }));
  #consecutiveFailures = 0;
  #openedAtMs: number | undefined;
  #notClosedSinceMs: number | undefined;
  #probe: { readonly begunAtMs: number } | undefined;

  state(nowMs: number): CircuitBreakerState {
    if (this.#openedAtMs === undefined) return 'closed';
    return nowMs - this.#openedAtMs < OPEN_MS ? 'open' : 'half-open';
  }

  /** How long it has been open, failed probes included; 0 if it is not open. */
  openForMs(nowMs: number): number {
    if (this.#notClosedSinceMs === undefined || this.state(nowMs) !== 'open') return 0;
    return nowMs - this.#notClosedSinceMs;
  }

  /** Half-open, it admits one probe at a time, and another one if a probe takes longer than `OPEN_MS`. */
  admits(nowMs: number): boolean {
    const state = this.state(nowMs);
    if (state !== 'half-open') return state === 'closed';
    return !this.#probe || nowMs - this.#probe.begunAtMs >= OPEN_MS;
  }

  /** The failed share of the last ten seconds' attempts. Without attempts: 1 if it is not closed, else 0. */
  errorRatio(nowMs: number): number {
    const { successes, failures } = this.#counts(nowMs);
    if (successes + failures > 0) return failures / (successes + failures);
    return this.#openedAtMs === undefined ? 0 : 1;
  }

  /**
   * Starts an attempt, admitted or not. The returned function takes its result, and is to be called once: undefined if
   * the attempt says nothing about the connector.
   */
  begin(nowMs: number): (isSuccess: boolean | undefined, nowMs: number) => void {
    const begunAtMs = nowMs;
    const probe = this.state(nowMs) === 'half-open' && this.admits(nowMs) ? { begunAtMs } : undefined;
    if (probe) this.#probe = probe;
    return (isSuccess, endedAtMs) => {
      // A probe that took too long has been replaced by another.
      const isLatestProbe = probe !== undefined && this.#probe === probe;
      if (isLatestProbe) this.#probe = undefined;
      if (isSuccess === undefined) return;
      this.#count(isSuccess, endedAtMs);
      if (this.#openedAtMs === undefined) this.#openIfFailing(endedAtMs);
      // Begun before it opened: says nothing about the time since.
      else if (begunAtMs < this.#openedAtMs) return;
      else if (isSuccess) this.#close();
      else if (isLatestProbe) this.#openedAtMs = endedAtMs;
    };
  }

  #count(isSuccess: boolean, nowMs: number): void {
    const second = Math.floor(nowMs / SLOT_MS);
    const slot = this.#slots[second % SLOTS] as Slot;
    if (slot.second !== second) Object.assign(slot, { second, successes: 0, failures: 0 });
    slot[isSuccess ? 'successes' : 'failures']++;
    this.#consecutiveFailures = isSuccess ? 0 : this.#consecutiveFailures + 1;
  }

  #counts(nowMs: number): { successes: number; failures: number } {
    const oldest = Math.floor(nowMs / SLOT_MS) - SLOTS;
    let successes = 0;
    let failures = 0;
    for (const slot of this.#slots) {
      if (slot.second <= oldest) continue;
      successes += slot.successes;
      failures += slot.failures;
    }
    return { successes, failures };
  }

  #openIfFailing(nowMs: number): void {
    const { successes, failures } = this.#counts(nowMs);
    const attempts = successes + failures;
    const isFailing = attempts >= MIN_ATTEMPTS && failures / attempts >= ERROR_RATIO;
    if (!isFailing && this.#consecutiveFailures < CONSECUTIVE_ERRORS) return;
    this.#openedAtMs = nowMs;
    this.#notClosedSinceMs = nowMs;
  }

  #close(): void {
    this.#openedAtMs = undefined;
    this.#notClosedSinceMs = undefined;
    this.#consecutiveFailures = 0;
    for (const slot of this.#slots) Object.assign(slot, { second: -1, successes: 0, failures: 0 });
  }
}
