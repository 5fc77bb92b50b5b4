import { nanoFromDecimalUsd as usd } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { amount } from './listedPrice.ts';

describe('an amount', () => {
  it('is read by its digits, without the noise of floats', () => {
    expect(amount(1.5e-7, 6)).toBe(usd('0.15'));
    expect(amount(3e-6, 6)).toBe(usd('3'));
    expect(amount(0.0000011, 6)).toBe(usd('1.1'));
    expect(amount(2.5e-5, 6)).toBe(usd('25'));
    expect(amount(1e-15, 6)).toBe(1n);
    expect(amount(0.1 + 0.2, 0)).toBe(usd('0.3'));
    expect(amount(0.07, 0)).toBe(usd('0.07'));
    expect(amount(75, 0)).toBe(usd('75'));
    expect(amount(2.5, -3)).toBe(usd('0.0025'));
    expect(amount(0, 6)).toBe(0n);
    expect(amount(undefined, 6)).toBeUndefined();
  });

  it('is refused if it cannot be stored exactly', () => {
    expect(() => amount(1.23e-16, 6)).toThrow('too fine');
    expect(() => amount(-1, 0)).toThrow('negative');
    expect(() => amount('1', 0)).toThrow('not a number');
    expect(() => amount(Number.NaN, 0)).toThrow('not a number');
    expect(() => amount(1e21, 0)).toThrow('too large');
    expect(() => amount(10_001, 0)).toThrow('too large');
  });
});
