import { describe, expect, it } from 'vitest';
import { CircuitBreaker, OPEN_MS } from './circuitBreaker.ts';

/** An attempt that ends at once. */
function attempt(breaker: CircuitBreaker, isGood: boolean, nowMs: number): void {
  breaker.begin(nowMs)(isGood, nowMs);
}

/** An open circuit breaker. */
function opened(nowMs = 0): CircuitBreaker {
  const breaker = new CircuitBreaker();
  for (let at = 0; at < 5; at++) attempt(breaker, false, nowMs);
  expect(breaker.state(nowMs)).toBe('open');
  return breaker;
}

describe('a circuit breaker', () => {
  it('opens when half of at least ten attempts in ten seconds failed, and not before', () => {
    const breaker = new CircuitBreaker();
    for (let at = 0; at < 4; at++) {
      attempt(breaker, true, at * 100);
      attempt(breaker, false, at * 100);
    }
    attempt(breaker, true, 500);
    expect(breaker.state(500)).toBe('closed');
    attempt(breaker, false, 600);
    expect([breaker.state(600), breaker.admits(600)]).toEqual(['open', false]);
  });

  it('ignores older attempts', () => {
    const breaker = new CircuitBreaker();
    for (let at = 0; at < 9; at++) attempt(breaker, at % 2 === 0, 0);
    attempt(breaker, false, 11_000);
    expect([breaker.state(11_000), breaker.errorRatio(11_000)]).toEqual(['closed', 1]);
    expect(breaker.errorRatio(22_000)).toBe(0);
  });

  it('opens after five consecutive failures, however few attempts there were', () => {
    const breaker = new CircuitBreaker();
    for (let at = 0; at < 4; at++) attempt(breaker, false, at * 20_000);
    expect(breaker.state(60_000)).toBe('closed');
    attempt(breaker, false, 80_000);
    expect(breaker.state(80_000)).toBe('open');
  });

  it('admits one probe at a time when half-open; a failed probe opens it again', () => {
    const breaker = opened();
    expect(breaker.admits(OPEN_MS - 1)).toBe(false);
    expect([breaker.state(OPEN_MS), breaker.admits(OPEN_MS)]).toEqual(['half-open', true]);
    const ended = breaker.begin(OPEN_MS);
    expect(breaker.admits(OPEN_MS)).toBe(false);
    ended(false, OPEN_MS + 100);
    expect(breaker.state(OPEN_MS + 100)).toBe('open');
    expect(breaker.admits(2 * OPEN_MS + 99)).toBe(false);
    expect(breaker.admits(2 * OPEN_MS + 100)).toBe(true);
  });

  it('reports how long it has been open, failed probes included', () => {
    const breaker = opened(1_000);
    expect([breaker.openForMs(1_000), breaker.openForMs(1_500)]).toEqual([0, 500]);
    // Half-open without a probe yet.
    expect(breaker.openForMs(1_000 + OPEN_MS)).toBe(0);
    attempt(breaker, false, 1_000 + OPEN_MS);
    expect(breaker.openForMs(1_100 + OPEN_MS)).toBe(OPEN_MS + 100);
    attempt(breaker, true, 1_000 + 2 * OPEN_MS);
    for (let at = 0; at < 5; at++) attempt(breaker, false, 20_000);
    expect(breaker.openForMs(20_100)).toBe(100);
  });

  it('closes after one successful attempt, and forgets earlier ones', () => {
    const breaker = opened();
    attempt(breaker, true, OPEN_MS);
    expect(breaker.state(OPEN_MS)).toBe('closed');
    attempt(breaker, false, OPEN_MS);
    expect(breaker.state(OPEN_MS)).toBe('closed');
  });

  it('admits another probe where one had no result', () => {
    const breaker = opened();
    breaker.begin(OPEN_MS)(undefined, OPEN_MS);
    expect([breaker.state(OPEN_MS), breaker.admits(OPEN_MS)]).toEqual(['half-open', true]);
  });

  it('replaces a slow probe, whose late end does not count for its successor', () => {
    const breaker = opened();
    const slow = breaker.begin(OPEN_MS);
    expect(breaker.admits(2 * OPEN_MS - 1)).toBe(false);
    expect(breaker.admits(2 * OPEN_MS)).toBe(true);
    const second = breaker.begin(2 * OPEN_MS);
    expect(breaker.admits(2 * OPEN_MS)).toBe(false);
    slow(false, 2 * OPEN_MS + 1);
    expect([breaker.state(2 * OPEN_MS + 1), breaker.admits(2 * OPEN_MS + 1)]).toEqual(['half-open', false]);
    second(false, 2 * OPEN_MS + 2);
    expect(breaker.state(2 * OPEN_MS + 2)).toBe('open');

    const another = opened();
    const early = another.begin(OPEN_MS);
    another.begin(2 * OPEN_MS)(false, 2 * OPEN_MS);
    early(false, 3 * OPEN_MS - 1);
    expect(another.admits(3 * OPEN_MS)).toBe(true);
  });

  it('is not closed by an attempt from before it opened', () => {
    const breaker = new CircuitBreaker();
    const early = breaker.begin(0);
    for (let at = 0; at < 5; at++) attempt(breaker, false, 100);
    early(true, 200);
    expect(breaker.state(200)).toBe('open');
    // An attempt begun while it was open counts.
    attempt(breaker, true, 300);
    expect(breaker.state(300)).toBe('closed');
  });
});
