/** When something was out of order, by the monotonic clock in milliseconds. */
export class Outages {
  readonly #periods: { readonly from: number; to: number }[] = [];

  /** Whether it is out of order now. */
  note(isOut: boolean): void {
    const last = this.#periods.at(-1);
    const wasOut = last?.to === Number.POSITIVE_INFINITY;
    if (isOut && !wasOut) this.#periods.push({ from: performance.now(), to: Number.POSITIVE_INFINITY });
    if (!isOut && wasOut && last) last.to = performance.now();
  }

  /** How often, and for how many milliseconds in all, until now. */
  get total(): { readonly times: number; readonly ms: number } {
    const now = performance.now();
    const ms = this.#periods.reduce((sum, { from, to }) => sum + Math.min(to, now) - from, 0);
    return { times: this.#periods.length, ms };
  }

  /** Whether it was out of order at any time of this period, or at most `graceMs` before it. */
  overlap(from: number, to: number, graceMs = 0): boolean {
    return this.#periods.some((one) => one.from <= to && from <= one.to + graceMs);
  }
}
