import { describe, expect, it } from 'vitest';
import { nanoFromDecimalUsd as usd } from './money.ts';
import { costOf, isFree, type ModelPrice, type TokenPrices } from './pricing.ts';
import { NO_TOKENS } from './tokenUsage.ts';

const rates: TokenPrices = {
  input: usd('2.5'),
  output: usd('15'),
  cacheRead: usd('0.25'),
  cacheWrite: usd('3.125'),
  cacheWrite1h: usd('5'),
};
const price: ModelPrice = {
  ...rates,
  version: 1,
  tiers: [{ ...rates, aboveInputTokens: 272_000, input: usd('5') }],
};

describe('cost', () => {
  it('is the sum over all classes of tokens at their prices per million', () => {
    const usage = {
      inputTokens: 86,
      cacheReadTokens: 1920,
      cacheWriteTokens: 8,
      cacheWrite1hTokens: 4,
      outputTokens: 300,
    };
    // 86×2.5 + 1920×0.25 + 8×3.125 + 4×5 + 300×15 = 5240 micro-USD
    expect(costOf(usage, price)).toBe(5_240_000n);
  });

  it('is rounded once for the whole request, not once per class', () => {
    const tenthOfANano: ModelPrice = {
      input: 400_000n,
      output: 400_000n,
      cacheRead: 400_000n,
      cacheWrite: 0n,
      cacheWrite1h: 0n,
      version: 1,
      tiers: [],
    };
    // 0.4 + 0.4 + 0.4 = 1.2 nano-USD; rounded per class it would be 0.
    expect(costOf({ ...NO_TOKENS, inputTokens: 1, cacheReadTokens: 1, outputTokens: 1 }, tenthOfANano)).toBe(
      1n,
    );
  });

  it('selects the tier by the whole input, cached or not, and only above its bound', () => {
    const at = (inputTokens: number, cacheReadTokens: number) =>
      costOf({ ...NO_TOKENS, inputTokens, cacheReadTokens }, price);
    expect(at(272_000, 0)).toBe(680_000_000n);
    expect(at(272_001, 0)).toBe(1_360_005_000n);
    expect(at(1, 272_000)).toBe(68_005_000n);
  });

  it('treats a model as free only if all its prices are zero', () => {
    const zero: TokenPrices = { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n };
    expect(isFree({ ...zero, version: 1, tiers: [] })).toBe(true);
    expect(isFree({ ...zero, version: 1, tiers: [{ ...zero, output: 1n, aboveInputTokens: 1 }] })).toBe(
      false,
    );
  });
});
