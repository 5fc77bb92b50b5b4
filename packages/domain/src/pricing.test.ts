import { describe, expect, it } from 'vitest';
import { dearestPrices } from './dearestPrices.ts';
import { type MeteredUsage, serviceConditions, standardUsage } from './meteredUsage.ts';
import type { ModelPrice, TokenPrices } from './modelPrice.ts';
import { nanoFromDecimalUsd as usd } from './money.ts';
import { costOf, isFree, pricesFor } from './pricing.ts';
import { TOKEN_CLASSES } from './tokenClasses.ts';
import { NO_TOKENS, type TokenUsage } from './tokenUsage.ts';

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
  variants: [],
  toolPrices: {},
};
const dearest = dearestPrices([]);

function textCost(tokens: TokenUsage, at: ModelPrice = price): bigint {
  return costOf(standardUsage(tokens), at, dearest).costNanoUsd;
}

describe('cost', () => {
  it('is the sum over all classes of tokens at their prices per million', () => {
    const usage = {
      ...NO_TOKENS,
      inputTokens: 86,
      cacheReadTokens: 1920,
      cacheWriteTokens: 8,
      cacheWrite1hTokens: 4,
      outputTokens: 300,
    };
    // 86×2.5 + 1920×0.25 + 8×3.125 + 4×5 + 300×15 = 5240 micro-USD
    expect(textCost(usage)).toBe(5_240_000n);
  });

  it.each(TOKEN_CLASSES)('of %s alone is its own price', (one) => {
    const all = Object.fromEntries(TOKEN_CLASSES.map((name, at) => [name, BigInt(at + 1) * 1_000_000n]));
    const distinct = { ...price, ...all, tiers: [] } as ModelPrice;
    const cost = costOf(standardUsage({ ...NO_TOKENS, [`${one}Tokens`]: 1_000_000 }), distinct, dearest);
    expect(cost).toEqual({ costNanoUsd: all[one], unpriced: [] });
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
      variants: [],
      toolPrices: {},
    };
    // 0.4 + 0.4 + 0.4 = 1.2 nano-USD; rounded per class it would be 0.
    expect(
      textCost({ ...NO_TOKENS, inputTokens: 1, cacheReadTokens: 1, outputTokens: 1 }, tenthOfANano),
    ).toBe(1n);
  });

  it('selects the tier by the whole input, cached or not, and only above its bound', () => {
    const at = (inputTokens: number, cacheReadTokens: number) =>
      textCost({ ...NO_TOKENS, inputTokens, cacheReadTokens });
    expect(at(272_000, 0)).toBe(680_000_000n);
    expect(at(272_001, 0)).toBe(1_360_005_000n);
    expect(at(1, 272_000)).toBe(68_005_000n);
  });

  it('treats a model as free only if all its prices are zero', () => {
    const zero: TokenPrices = { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n };
    const free: ModelPrice = { ...zero, version: 1, tiers: [], variants: [], toolPrices: {} };
    const service = serviceConditions('priority');
    expect(isFree(free)).toBe(true);
    expect(isFree({ ...free, tiers: [{ ...zero, output: 1n, aboveInputTokens: 1 }] })).toBe(false);
    expect(isFree({ ...free, variants: [{ ...zero, output: 1n, tiers: [], service }] })).toBe(false);
    expect(isFree({ ...free, toolPrices: { web_search: 1n } })).toBe(false);
    expect(isFree({ ...free, inputAudio: 1n })).toBe(false);
  });
});

describe('cost of what the list price does not cover', () => {
  const output = (tokens: number): TokenUsage => ({ ...NO_TOKENS, outputTokens: tokens });
  const priority = serviceConditions('priority');
  const fast = serviceConditions('', 'fast');
  const variants = [
    { ...rates, output: usd('30'), tiers: [], service: priority },
    { ...rates, output: usd('90'), tiers: [], service: fast },
  ];
  const cost = (usage: Partial<MeteredUsage>, at: ModelPrice = price, known = dearest) =>
    costOf({ ...standardUsage(NO_TOKENS), ...usage }, at, known);

  it.each([undefined, null, '', 'default', 'Standard', 'auto', 'on_demand', 3])(
    'is none for the service tier %j',
    (tier) => {
      const service = serviceConditions(tier);
      expect(cost({ tokens: output(1_000_000), service })).toEqual({
        costNanoUsd: usd('15'),
        unpriced: [],
      });
    },
  );

  it('is the price of the tier, the speed or the geography that served it', () => {
    const at = { ...price, variants };
    expect(cost({ tokens: output(1_000_000), service: priority }, at)).toEqual({
      costNanoUsd: usd('30'),
      unpriced: [],
    });
    expect(cost({ tokens: output(1_000_000), service: fast }, at).costNanoUsd).toBe(usd('90'));
  });

  it('multiplies known prices of single conditions, and marks the combination', () => {
    const service = serviceConditions('priority', 'fast');
    expect(cost({ tokens: output(1_000_000), service }, { ...price, variants })).toEqual({
      costNanoUsd: usd('180'),
      unpriced: ['service_tier:priority', 'speed:fast'],
    });
  });

  it('is the dearest known multiple of the list price without a price, and marked', () => {
    const tokens = output(1_000_000);
    expect(cost({ tokens, service: priority })).toEqual({
      costNanoUsd: usd('37.5'),
      unpriced: ['service_tier:priority'],
    });
    const dear = { ...price, variants: [{ ...rates, output: usd('150'), tiers: [], service: priority }] };
    const unknown = serviceConditions('turbo');
    expect(cost({ tokens, service: unknown }, price, dearestPrices([dear])).costNanoUsd).toBe(usd('150'));
  });

  it('compares a variant with the list price at the same length of the input', () => {
    const long = { ...rates, output: usd('45'), aboveInputTokens: 10 };
    const listed = { ...price, tiers: [{ ...rates, output: usd('22.5'), aboveInputTokens: 10 }] };
    const variant = { ...rates, output: usd('30'), tiers: [long], service: priority };
    const known = dearestPrices([{ ...listed, variants: [{ ...variant, service: fast }] }]);
    expect(known.speedPermille).toBe(6_000n);
    const twice = { ...listed, variants: [variant] };
    const both = serviceConditions('priority', 'fast');
    expect(cost({ tokens: output(1_000_000), service: both }, twice, known).costNanoUsd).toBe(usd('180'));
  });

  it.each(['flex', 'batch'])(
    'is the list price, and marked, for the cheaper tier %s without a price',
    (tier) => {
      expect(cost({ tokens: output(1_000_000), service: serviceConditions(tier) })).toEqual({
        costNanoUsd: usd('15'),
        unpriced: [`service_tier:${tier}`],
      });
    },
  );

  it('has tiers by context in each variant', () => {
    const long = { ...rates, output: usd('60'), aboveInputTokens: 10 };
    const at = { ...price, variants: [{ ...rates, tiers: [long], service: priority }] };
    const tokens = { ...output(1_000_000), inputTokens: 11 };
    expect(cost({ tokens, service: priority }, at).costNanoUsd).toBe(usd('60') + 27_500n);
  });

  it('is per use of a tool: at its price, else at the dearest of that tool, else of any', () => {
    const toolUses = { web_search: 3 };
    const priced = { ...price, toolPrices: { web_search: usd('0.01') } };
    expect(cost({ toolUses }, priced)).toEqual({ costNanoUsd: usd('0.03'), unpriced: [] });
    const known = dearestPrices([{ ...price, toolPrices: { web_search: usd('0.02'), other: usd('0.5') } }]);
    expect(cost({ toolUses }, price, known)).toEqual({
      costNanoUsd: usd('0.06'),
      unpriced: ['tool:web_search'],
    });
    expect(cost({ toolUses: { unheard_of: 1 } }, price, known).costNanoUsd).toBe(usd('0.5'));
    expect(cost({ toolUses: { constructor: 1 } }, priced, known).unpriced).toEqual(['tool:constructor']);
  });

  it('is the price of the modality, else the dearest of any model', () => {
    const tokens = { ...NO_TOKENS, outputAudioTokens: 1_000_000 };
    expect(cost({ tokens }, { ...price, outputAudio: usd('80') })).toEqual({
      costNanoUsd: usd('80'),
      unpriced: [],
    });
    expect(cost({ tokens })).toEqual({ costNanoUsd: usd('200'), unpriced: ['output_audio'] });
  });

  it('is nothing at a free model', () => {
    const zero = { input: 0n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n };
    const free: ModelPrice = { ...zero, version: 1, tiers: [], variants: [], toolPrices: {} };
    const tokens = { ...output(5), inputAudioTokens: 9, outputImageTokens: 9 };
    expect(cost({ tokens, service: priority, toolUses: { web_search: 2 } }, free).costNanoUsd).toBe(0n);
  });

  it('never lowers a price for unknown conditions', () => {
    const at = { ...price, variants };
    const names = ['', 'priority', 'flex', 'x'];
    for (const tier of names) {
      for (const speed of names) {
        const prices = pricesFor(serviceConditions(tier, speed, tier), at, dearest);
        expect(prices.output).toBeGreaterThanOrEqual(price.output);
      }
    }
  });
});
