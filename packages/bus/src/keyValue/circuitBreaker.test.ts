import { describe, expect, it } from 'vitest';
import { createCircuitBreaker } from './circuitBreaker.ts';

function createTestBreaker() {
  let now = 0;
  const breaker = createCircuitBreaker(() => now);
  return {
    /** Whether the breaker allowed the call. */
    call: (hasResponded: boolean) => {
      const end = breaker.begin();
      end?.(hasResponded);
      return end !== undefined;
    },
    begin: () => breaker.begin(),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('the circuit breaker', () => {
  it('stays closed while one call in three gets a response', () => {
    const { call } = createTestBreaker();
    for (let at = 0; at < 30; at++) expect(call(at % 3 === 2)).toBe(true);
  });

  it('opens after three time-outs in a row, allows one probe a second, and closes on a response', () => {
    const { call, pass } = createTestBreaker();
    for (let at = 0; at < 3; at++) expect(call(false)).toBe(true);
    expect(call(false)).toBe(false);
    pass(999);
    expect(call(false)).toBe(false);
    pass(1);
    expect([call(false), call(false)]).toEqual([true, false]);
    pass(1_000);
    expect([call(true), call(true), call(true)]).toEqual([true, true, true]);
  });

  it('does not count calls that were in flight together as probes', () => {
    const { begin, pass } = createTestBreaker();
    const inFlight = Array.from({ length: 100 }, begin);
    for (const end of inFlight) end?.(false);
    expect(begin()).toBeUndefined();
    pass(1_000);
    expect([begin(), begin()]).toEqual([expect.any(Function), undefined]);
  });
});
