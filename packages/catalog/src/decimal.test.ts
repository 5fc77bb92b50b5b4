import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compare, dearest, decimalOf, times } from './decimal.ts';

describe('a price times a factor', () => {
  it.each([
    ['2.5', '2', '5'],
    ['0.15', '5/3', '0.25'],
    ['1.1', '20/11', '2'],
    ['0.275', '138/275', '0.138'],
    ['1.25', '1.1', '1.375'],
    ['10', '1/1000', '0.01'],
    ['0', '6', '0'],
    ['3', '1', '3'],
  ])('%s × %s is exactly %s', (price, factor, product) => {
    expect(times(price, factor)).toBe(product);
  });

  it('is rounded up where a nano-USD cannot hold it', () => {
    expect(times('0.000000001', '0.5')).toBe('0.000000001');
    expect(times('1', '1/3')).toBe('0.333333334');
  });

  it('is never below the exact product, and less than a nano-USD above it', () => {
    const decimal = fc.integer({ min: 0, max: 10 ** 9 }).map((micros) => String(micros / 10 ** 6));
    fc.assert(
      fc.property(
        decimal,
        fc.integer({ min: 1, max: 999 }),
        fc.integer({ min: 1, max: 999 }),
        (price, a, b) => {
          const product = times(price, `${a}/${b}`);
          expect(compare(times(product, String(b)), times(price, String(a)))).toBeGreaterThanOrEqual(0);
          const above = Number(product) - (Number(price) * a) / b;
          expect(above).toBeLessThan(1.1e-9 + Number(product) * 1e-12);
        },
      ),
      { numRuns: 500, seed: 18 },
    );
  });

  it.each(['-1', '', 'x', '1/0', 'NaN', 'Infinity'])('%j is not a factor', (factor) => {
    expect(() => times('1', factor)).toThrow();
  });
});

it('writes the numbers of JavaScript as decimals', () => {
  expect([0.1, 1e-7, 3.125, 40, 0, 0.003625].map(decimalOf)).toEqual([
    '0.1',
    '0.0000001',
    '3.125',
    '40',
    '0',
    '0.003625',
  ]);
  expect(() => decimalOf(-1)).toThrow();
});

it('compares by value', () => {
  expect([compare('10', '9.5'), compare('0.50', '0.5'), dearest('2', '10'), dearest(undefined, '0')]).toEqual(
    [1, 0, '10', '0'],
  );
});
