/**
 * closed → open by too many errors; open → half-open after `OPEN_MS`; half-open → closed by one good attempt, → open by a
 * bad one.
 */
export type BreakerState = 'closed' | 'half-open' | 'open';

const SLOT_MS = 1_000;
const SLOTS = 10;
const LEAST_ATTEMPTS = 10;
const ERROR_RATIO = 0.5;
/** So many errors one after the other eject also what is seldom asked. */
const ERRORS_IN_A_ROW = 5;
export const OPEN_MS = 5_000;

interface Slot {
  second: number;
  good: number;
  bad: number;
}

/** Counts how attempts at one connector end, over the last ten seconds. Times are monotonic, in milliseconds. */
export class Breaker {
  readonly #slots: Slot[] = Array.from({ length: SLOTS }, () => ({ second: -1, good: 0, bad: 0 }));
  #badInARow = 0;
  #openedAtMs: number | undefined;
  #notClosedSinceMs: number | undefined;
  #probe: { readonly begunAtMs: number } | undefined;

  state(nowMs: number): BreakerState {
    if (this.#openedAtMs === undefined) return 'closed';
    return nowMs - this.#openedAtMs < OPEN_MS ? 'open' : 'half-open';
  }

  /** How long it has been open, but for probes that failed; 0 where it is not open now. */
  openForMs(nowMs: number): number {
    if (this.#notClosedSinceMs === undefined || this.state(nowMs) !== 'open') return 0;
    return nowMs - this.#notClosedSinceMs;
  }

  /** Half-open, it takes one attempt at a time, and does not wait for one that takes longer than `OPEN_MS`. */
  admits(nowMs: number): boolean {
    const state = this.state(nowMs);
    if (state !== 'half-open') return state === 'closed';
    return !this.#probe || nowMs - this.#probe.begunAtMs >= OPEN_MS;
  }

  /** Of the attempts of the last ten seconds; 1 where it is open and there were none. */
  errorRatio(nowMs: number): number {
    const { good, bad } = this.#counts(nowMs);
    if (good + bad > 0) return bad / (good + bad);
    return this.#openedAtMs === undefined ? 0 : 1;
  }

  /** An attempt begins, admitted or not. What it returns is to be called once, with undefined where nothing was learnt. */
  begin(nowMs: number): (isGood: boolean | undefined, nowMs: number) => void {
    const begunAtMs = nowMs;
    const probe = this.state(nowMs) === 'half-open' && this.admits(nowMs) ? { begunAtMs } : undefined;
    if (probe) this.#probe = probe;
    return (isGood, endedAtMs) => {
      // Where it took too long, another has begun in its stead.
      const isLatestProbe = probe !== undefined && this.#probe === probe;
      if (isLatestProbe) this.#probe = undefined;
      if (isGood === undefined) return;
      this.#count(isGood, endedAtMs);
      if (this.#openedAtMs === undefined) this.#openIfBad(endedAtMs);
      // One that was under way when it opened says nothing of how things stand since.
      else if (begunAtMs < this.#openedAtMs) return;
      else if (isGood) this.#close();
      else if (isLatestProbe) this.#openedAtMs = endedAtMs;
    };
  }

  #count(isGood: boolean, nowMs: number): void {
    const second = Math.floor(nowMs / SLOT_MS);
    const slot = this.#slots[second % SLOTS] as Slot;
    if (slot.second !== second) Object.assign(slot, { second, good: 0, bad: 0 });
    slot[isGood ? 'good' : 'bad']++;
    this.#badInARow = isGood ? 0 : this.#badInARow + 1;
  }

  #counts(nowMs: number): { good: number; bad: number } {
    const oldest = Math.floor(nowMs / SLOT_MS) - SLOTS;
    let good = 0;
    let bad = 0;
    for (const slot of this.#slots) {
      if (slot.second <= oldest) continue;
      good += slot.good;
      bad += slot.bad;
    }
    return { good, bad };
  }

  #openIfBad(nowMs: number): void {
    const { good, bad } = this.#counts(nowMs);
    const isBad = good + bad >= LEAST_ATTEMPTS && bad / (good + bad) >= ERROR_RATIO;
    if (!isBad && this.#badInARow < ERRORS_IN_A_ROW) return;
    this.#openedAtMs = nowMs;
    this.#notClosedSinceMs = nowMs;
  }

  #close(): void {
    this.#openedAtMs = undefined;
    this.#notClosedSinceMs = undefined;
    this.#badInARow = 0;
    for (const slot of this.#slots) Object.assign(slot, { second: -1, good: 0, bad: 0 });
  }
}
