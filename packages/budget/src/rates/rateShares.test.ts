import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decideRates, NO_RATES, sharedOf, unaskedOf } from './rateShares.ts';

it('divides a limit between what proxies use unasked and what they ask for, without a rest', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), fc.integer({ min: 1, max: 100 }), (limit, live) => {
      expect(live * unaskedOf(limit, live) + sharedOf(limit, live)).toBe(limit);
      expect(sharedOf(limit, live)).toBeGreaterThanOrEqual(0);
    }),
  );
});

it('grants what is wanted, then what is left, then nothing', () => {
  // Four proxies use one request in sixteen each without asking.
  const limits = { requests: 16n, tokens: 0n };
  const grant = (used: bigint, wanted: bigint) =>
    decideRates(limits, { requests: used, tokens: 0n }, { requests: wanted, tokens: 0n }, 4);
  expect(grant(0n, 5n)).toMatchObject({ requests: 5n, requestsLeft: 7n });
  expect(grant(10n, 5n)).toMatchObject({ requests: 2n, requestsLeft: 0n });
  expect(grant(12n, 5n)).toEqual(NO_RATES);
  // A proxy that went away left a larger share to the others.
  expect(grant(14n, 5n)).toEqual(NO_RATES);
});
