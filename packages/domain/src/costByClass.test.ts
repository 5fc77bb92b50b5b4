import { describe, expect, it } from 'vitest';
import { costByClass } from './costByClass.ts';
import { dearestPrices } from './dearestPrices.ts';
import { type MeteredUsage, serviceConditions, standardUsage } from './meteredUsage.ts';
import type { ModelPrice, TokenPrices } from './modelPrice.ts';
import { nanoFromDecimalUsd as usd } from './money.ts';
import { costOf } from './pricing.ts';
import { priceInRegion } from './regionalPrice.ts';
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
  tiers: [{ ...rates, aboveInputTokens: 1_000, input: usd('5') }],
  variants: [
    { ...rates, input: usd('10'), tiers: [], service: serviceConditions('priority') },
    { ...rates, input: usd('2.75'), tiers: [], service: serviceConditions('', '', 'eu-west-1') },
  ],
  toolPrices: { web_search: usd('0.01') },
};
const tokens = { ...NO_TOKENS, inputTokens: 100, cacheReadTokens: 3, outputTokens: 20 };
const split = (usage: MeteredUsage, at = price) =>
  costByClass(usage, price, costOf(usage, at, dearestPrices([])).costNanoUsd);
const costs = (usage: MeteredUsage, at = price) =>
  split(usage, at)?.map((part) => [part.of, part.costNanoUsd]);

describe('the cost by class', () => {
  it('has each class that was used, at the price that was charged', () => {
    expect(split({ ...standardUsage(tokens), toolUses: { web_search: 2 } })).toEqual([
      { of: 'input', quantity: 100, price: usd('2.5'), costNanoUsd: 250_000n },
      { of: 'output', quantity: 20, price: usd('15'), costNanoUsd: 300_000n },
      { of: 'cacheRead', quantity: 3, price: usd('0.25'), costNanoUsd: 750n },
      { of: { tool: 'web_search' }, quantity: 2, price: usd('0.01'), costNanoUsd: usd('0.02') },
    ]);
  });

  it('is by the tier of the whole input, the conditions of service and the region that were charged', () => {
    expect(costs(standardUsage({ ...tokens, inputTokens: 2_000 }))?.[0]).toEqual(['input', 10_000_000n]);
    const priority = { ...standardUsage(tokens), service: serviceConditions('priority') };
    expect(costs(priority)?.[0]).toEqual(['input', 1_000_000n]);
    expect(costs(standardUsage(tokens), priceInRegion(price, 'eu-west-1'))?.[0]).toEqual(['input', 275_000n]);
  });

  it('is nothing without usage', () => {
    expect(costByClass(standardUsage(NO_TOKENS), price, 0n)).toEqual([]);
  });

  it('is not known if the price lacks something that was used, or gives another cost', () => {
    expect(split({ ...standardUsage(tokens), toolUses: { code_interpreter: 1 } })).toBeUndefined();
    expect(split({ ...standardUsage(tokens), service: serviceConditions('flex') })).toBeUndefined();
    expect(split(standardUsage({ ...tokens, outputAudioTokens: 1 }))).toBeUndefined();
    expect(costByClass(standardUsage(tokens), price, 1n)).toBeUndefined();
  });
});
