import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  decimalUsd,
  divideHalfUp,
  microFromNano,
  moneyFromNano,
  nanoFromDecimalUsd,
  nanoFromMicro,
} from './money.ts';

describe('money', () => {
  it('parses a decimal price exactly, to the nano', () => {
    expect(nanoFromDecimalUsd('2.5')).toBe(2_500_000_000n);
    expect(nanoFromDecimalUsd('0.000000001')).toBe(1n);
    expect(nanoFromDecimalUsd('75')).toBe(75_000_000_000n);
  });

  it('formats it back', () => {
    for (const text of ['2.5', '0.000000001', '75', '0', '10.1'])
      expect(decimalUsd(nanoFromDecimalUsd(text))).toBe(text);
    for (const text of ['2.5', '0.000000001', '75', '10.1'])
      expect(decimalUsd(-nanoFromDecimalUsd(text))).toBe(`-${text}`);
  });

  it.each(['', '-1', '1e3', '1.0000000001', '.5', 'NaN', ' 1'])('rejects %j as a price', (text) => {
    expect(() => nanoFromDecimalUsd(text)).toThrow(/not a price/);
  });

  it('rounds to micro-USD half up, once', () => {
    expect(microFromNano(499n)).toBe(0);
    expect(microFromNano(500n)).toBe(1);
    expect(microFromNano(1_499n)).toBe(1);
    expect(microFromNano(-500n)).toBe(0);
    expect(microFromNano(-501n)).toBe(-1);
  });

  it('converts every whole micro-USD to nano-USD and back', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1e15 }),
        (micro) => microFromNano(nanoFromMicro(micro)) === micro,
      ),
    );
  });

  it('divides half up for any sign', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.bigInt({ min: -(10n ** 20n), max: 10n ** 20n }), fc.bigInt({ min: 0n, max: 2n ** 53n })),
        fc.oneof(fc.bigInt({ min: 1n, max: 10n ** 9n }), fc.bigInt({ min: 2n ** 52n, max: 2n ** 54n })),
        (a, b) => {
          const rest = 2n * (a - divideHalfUp(a, b) * b);
          return rest < b && rest >= -b;
        },
      ),
    );
  });

  it('formats a price as units and nanos', () => {
    expect(moneyFromNano(2_500_000_000n)).toEqual({ currency_code: 'USD', units: 2, nanos: 500_000_000 });
  });
});
