import { describe, expect, it } from 'vitest';
import { RetryDelay } from './retryDelay.ts';

describe('the delay after a failed write', () => {
  /** After `failures` that each took this long, at once when the delay is over: the milliseconds until the next try. */
  function delayAfter(failures: number, tookMs: number): number {
    let nowMs = 0;
    const retry = new RetryDelay(() => new Date(nowMs));
    let delayMs = 0;
    for (let at = 0; at < failures; at++) {
      const begunAtMs = retry.begin();
      nowMs += tookMs;
      retry.failed(begunAtMs);
      for (delayMs = 0; !retry.isOver; delayMs++) nowMs++;
    }
    return delayMs;
  }

  it.each([
    [1, 0, 50],
    [2, 0, 100],
    [3, 0, 200],
    [4, 0, 250],
    [1_000, 0, 250],
    [1_000, 1, 250],
    // Of a disk that is slow too, a fifth of the time.
    [1, 200, 800],
    [1_000, 200, 800],
    [1_000, 60_000, 5_000],
  ])('of %i in turn that took %i ms each is %i ms', (failures, tookMs, delayMs) => {
    expect(delayAfter(failures, tookMs)).toBe(delayMs);
  });

  it('ends with a success, and when the clock is set back', () => {
    let nowMs = 10_000;
    const retry = new RetryDelay(() => new Date(nowMs));
    retry.failed(retry.begin());
    expect(retry.isOver).toBe(false);
    nowMs = 9_000;
    expect(retry.isOver).toBe(true);
    retry.failed(retry.begin());
    retry.succeeded();
    expect(retry.isOver).toBe(true);
  });
});
