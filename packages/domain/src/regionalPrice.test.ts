import { describe, expect, it } from 'vitest';
import type { ContextPrices, ModelPrice } from './modelPrice.ts';
import { priceInRegion } from './regionalPrice.ts';

const rates = (input: bigint): ContextPrices => ({
  input,
  output: 5n * input,
  cacheRead: input,
  cacheWrite: input,
  cacheWrite1h: input,
  tiers: [],
});
const variant = (input: bigint, service: object) => ({
  ...rates(input),
  service: { serviceTier: '', speed: '', geography: '', ...service },
});
const PRICE: ModelPrice = {
  ...rates(1_000n),
  version: 7,
  toolPrices: { web_search: 10n },
  variants: [
    variant(1_100n, { geography: 'regional' }),
    variant(1_200n, { geography: 'us-gov-west-1' }),
    variant(2_000n, { serviceTier: 'priority' }),
    variant(2_500n, { serviceTier: 'priority', geography: 'us-gov-west-1' }),
  ],
};

describe('a price in a region', () => {
  it.each([
    ['us-gov-west-1', 1_200n, 2_500n],
    ['US-GOV-WEST-1', 1_200n, 2_500n],
    // Without a price for both, both multiples count.
    ['eu-central-1', 1_100n, 2_200n],
    ['global', 1_000n, 2_000n],
    ['', 1_000n, 2_000n],
  ])('is that of %s, with what else it depends on', (region, input, priority) => {
    const { variants, ...price } = priceInRegion(PRICE, region);
    expect(price).toMatchObject({ input, output: 5n * input, version: 7, toolPrices: PRICE.toolPrices });
    expect(variants).toMatchObject([
      { input: priority, service: { serviceTier: 'priority', speed: '', geography: '' } },
    ]);
  });

  it('is the same if nothing depends on it', () => {
    const price = { ...PRICE, variants: PRICE.variants.slice(2, 3) };
    expect(priceInRegion(price, 'eu-central-1')).toBe(price);
  });

  it('is the list price where a region has none of its own, and prices elsewhere are not there', () => {
    const price = { ...PRICE, variants: [variant(1_200n, { geography: 'us' })] };
    expect(priceInRegion(price, 'eu')).toMatchObject({ input: 1_000n, variants: [] });
  });
});
