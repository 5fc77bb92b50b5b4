import { describe, expect, it } from 'vitest';
import { readShippedCatalog } from './catalogFile.ts';

const catalog = await readShippedCatalog();

describe('the shipped catalog', () => {
  it('has each model once', () => {
    const ids = catalog.map((model) => model.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThan(100);
  });

  it("has exactly the prices of the vendors' lists", () => {
    const model = catalog.find(({ id }) => id === 'openai/gpt-5.4');
    expect(model).toMatchObject({
      price: {
        input: 2_500_000_000n,
        output: 15_000_000_000n,
        cacheRead: 250_000_000n,
        tiers: [{ aboveInputTokens: 272_000, input: 5_000_000_000n, output: 22_500_000_000n }],
      },
    });
    const claude = catalog.find(({ id }) => id === 'anthropic/claude-sonnet-4-5');
    // Writing to the cache for five minutes costs 1.25 × the input, for an hour 2 ×.
    expect(claude?.price).toMatchObject({ cacheWrite: 3_750_000_000n, cacheWrite1h: 6_000_000_000n });
  });

  it('has a price for every token class of a model, or for none of a free model', () => {
    for (const { id, price } of catalog) {
      const charged = [price, ...price.tiers].flatMap((rates) => [
        rates.input > 0n,
        rates.cacheRead > 0n,
        rates.cacheWrite > 0n,
        rates.cacheWrite1h > 0n,
      ]);
      expect([id, new Set(charged).size]).toEqual([id, 1]);
    }
  });

  it('has rising tiers', () => {
    for (const { id, price } of catalog) {
      const edges = price.tiers.map((tier) => tier.aboveInputTokens);
      expect([id, edges]).toEqual([id, [...edges].sort((a, b) => a - b)]);
    }
  });
});
