import { seededRandom } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import {
  type AccountCall,
  type AccountCorrection,
  type AccountLimits,
  type AccountWindow,
  decideAccount,
  NEW_WINDOW,
  SLOT_MS,
} from './accountWindow.ts';

const MINUTE_MS = 60_000;
const START_MS = 1_790_000_002_345;
const SIXTY: AccountLimits = { requests: 60, tokens: undefined };

const requests = (count: number, priority = 0, tokens = 0) =>
  Array.from({ length: count }, () => ({ priority, tokens, stays: true }));

/** An account over time, and when each of its requests was granted. */
function account(limits: AccountLimits) {
  let window: AccountWindow = NEW_WINDOW;
  const granted: { readonly atMs: number; readonly tokens: number; readonly priority: number }[] = [];
  return {
    granted,
    call(atMs: number, call: Partial<AccountCall>) {
      const whole = {
        producerId: 'one',
        waiting: [],
        corrections: [],
        vendorLeft: undefined,
        refusedMs: 0,
        ...call,
      };
      // As it is stored.
      const decided = decideAccount(JSON.parse(JSON.stringify(window)), limits, whole, atMs);
      window = decided.window;
      for (const { tokens, priority } of whole.waiting.slice(0, decided.grant.granted)) {
        granted.push({ atMs, tokens, priority });
      }
      return decided.grant;
    },
    mostInAMinute(of: 'requests' | 'tokens') {
      const sizeOf = ({ tokens }: { readonly tokens: number }) => (of === 'tokens' ? tokens : 1);
      return Math.max(
        0,
        ...granted.map(({ atMs }) =>
          granted
            .filter((other) => other.atMs > atMs - MINUTE_MS && other.atMs <= atMs)
            .reduce((sum, other) => sum + sizeOf(other), 0),
        ),
      );
    },
  };
}

describe('an account of so many requests and tokens a minute', () => {
  it.each(Array.from({ length: 30 }, (_, at) => at + 1))(
    'gets no more in any 60 seconds, and soon all of that, whatever asks (seed %i)',
    (seed) => {
      const next = seededRandom(seed);
      const below = (limit: number) => Math.floor(next() * limit);
      const limits = { requests: 1 + below(80), tokens: next() < 0.5 ? undefined : 1_000 + below(50_000) };
      const tried = account(limits);
      for (let atMs = START_MS; atMs < START_MS + 6 * MINUTE_MS; atMs += below(3_000)) {
        const waiting = Array.from({ length: below(20) }, () => ({
          priority: below(10),
          tokens: limits.tokens === undefined ? 0 : below(limits.tokens),
          stays: next() < 0.5,
        })).sort((a, b) => b.priority - a.priority);
        const { granted, retryMs, left } = tried.call(atMs, { producerId: `p${below(4)}`, waiting });
        expect(retryMs > 0, 'whoever waits is told how long').toBe(granted < waiting.length);
        expect(left.requests).toBeGreaterThanOrEqual(0);
      }
      expect(tried.mostInAMinute('requests')).toBeLessThanOrEqual(limits.requests);
      if (limits.tokens !== undefined)
        expect(tried.mostInAMinute('tokens')).toBeLessThanOrEqual(limits.tokens);
      else expect(tried.mostInAMinute('requests')).toBe(limits.requests);
    },
  );

  it('says when the next request fits', () => {
    const tried = account(SIXTY);
    expect(tried.call(START_MS, { waiting: requests(70) })).toMatchObject({
      granted: 60,
      left: { requests: 0 },
    });
    const { retryMs } = tried.call(START_MS + 1_000, { waiting: requests(1) });
    expect(retryMs).toBeLessThanOrEqual(MINUTE_MS + SLOT_MS);
    expect(tried.call(START_MS + 1_000 + retryMs - 1, { waiting: requests(1) }).granted).toBe(0);
    expect(tried.call(START_MS + 1_000 + retryMs, { waiting: requests(70) }).granted).toBe(60);
  });

  it('goes to higher priorities first, at whichever proxy they wait, then to who asks first', () => {
    const tried = account({ requests: 3, tokens: undefined });
    tried.call(START_MS, { producerId: 'one', waiting: requests(3) });
    const { retryMs } = tried.call(START_MS, { producerId: 'one', waiting: requests(2, 5) });
    expect(tried.call(START_MS, { producerId: 'two', waiting: requests(5, 1) }).granted).toBe(0);
    const freeAtMs = START_MS + retryMs;
    // Two of three are for the other proxy.
    expect(tried.call(freeAtMs, { producerId: 'two', waiting: requests(5, 1) })).toMatchObject({
      granted: 1,
    });
    expect(tried.call(freeAtMs, { producerId: 'three', waiting: requests(1, 6) })).toMatchObject({
      granted: 1,
    });
    expect(tried.call(freeAtMs, { producerId: 'one', waiting: requests(2, 5) })).toMatchObject({
      granted: 1,
    });
  });

  it('holds nothing for a proxy that waited and has gone', () => {
    const tried = account({ requests: 1, tokens: undefined });
    tried.call(START_MS, { producerId: 'one', waiting: requests(1) });
    const { retryMs } = tried.call(START_MS, { producerId: 'gone', waiting: requests(1, 9) });
    const freeAtMs = START_MS + retryMs;
    expect(tried.call(freeAtMs, { producerId: 'two', waiting: requests(1) })).toMatchObject({
      granted: 0,
      retryMs: 250,
    });
    expect(tried.call(freeAtMs + 2_000, { producerId: 'two', waiting: requests(1) }).granted).toBe(1);
  });

  it('holds nothing for a request that does not wait', () => {
    const tried = account({ requests: 1, tokens: undefined });
    tried.call(START_MS, { producerId: 'one', waiting: requests(1) });
    const { retryMs } = tried.call(START_MS, {
      producerId: 'two',
      waiting: [{ priority: 9, tokens: 0, stays: false }],
    });
    expect(tried.call(START_MS + retryMs, { producerId: 'one', waiting: requests(1) }).granted).toBe(1);
  });

  it('never gets more than the vendor says is left, until the vendor resets that', () => {
    const tried = account(SIXTY);
    tried.call(START_MS, { waiting: requests(10) });
    const vendorLeft = { requests: { left: 2, resetMs: 7_000 } };
    expect(tried.call(START_MS + 10, { vendorLeft })).toMatchObject({ granted: 0, left: { requests: 2 } });
    expect(tried.call(START_MS + 20, { waiting: requests(5) })).toMatchObject({ granted: 2, retryMs: 6_990 });
    expect(tried.call(START_MS + 7_009, { waiting: requests(5) }).granted).toBe(0);
    expect(tried.call(START_MS + 7_010, { waiting: requests(100) }).granted).toBe(48);
  });

  it('gets nothing while the vendor refuses, whatever the vendor said before or says of others', () => {
    const tried = account(SIXTY);
    expect(tried.call(START_MS, { refusedMs: 9_000, waiting: requests(1) })).toMatchObject({
      granted: 0,
      retryMs: 9_000,
    });
    const vendorLeft = { requests: { left: 30, resetMs: 1_000 } };
    expect(tried.call(START_MS + 10, { vendorLeft, waiting: requests(1) }).granted).toBe(0);
    expect(tried.call(START_MS + 20, { refusedMs: 1_000, waiting: requests(1) }).retryMs).toBe(8_980);
    expect(tried.call(START_MS + 9_000, { waiting: requests(61) }).granted).toBe(60);
  });

  it('gets what a request did not use, and pays what it used beyond its estimate, in the minute of its grant', () => {
    const tried = account({ requests: 100, tokens: 1_000 });
    const { slot } = tried.call(START_MS, { waiting: requests(1, 0, 900) });
    const corrected = (correction: AccountCorrection) =>
      tried.call(START_MS + 6_000, { corrections: [correction] }).left;
    expect(corrected({ slot, requests: 0, tokens: -400 }).tokens).toBe(500);
    expect(corrected({ slot, requests: 0, tokens: 700 }).tokens).toBe(0);
    expect(corrected({ slot: slot - 20, requests: 0, tokens: -700 }).tokens).toBe(0);
    expect(corrected({ slot, requests: -1, tokens: 0 }).requests).toBe(100);
    expect(corrected({ slot, requests: -1, tokens: 0 }).requests).toBe(100);
    expect(tried.call(START_MS + MINUTE_MS + SLOT_MS, {}).left).toEqual({ requests: 100, tokens: 1_000 });
  });
});
