import { expect, it } from 'vitest';
import { affordableOutput, balancedEstimate, hardEstimate, type OutputSize } from './estimate.ts';
import type { ModelPrice } from './modelPrice.ts';
import { TEXT_CLASSES } from './tokenClasses.ts';

const rates = { cacheRead: 0n, cacheWrite: 9_000_000n, cacheWrite1h: 9_000_000n };
const price: ModelPrice = {
  ...rates,
  version: 1,
  variants: [],
  toolPrices: {},
  input: 1_000_000n,
  output: 4_000_000n,
  tiers: [{ ...rates, aboveInputTokens: 1_000, input: 2_000_000n, output: 3_000_000n }],
};
const output = (size: Partial<OutputSize> = {}): OutputSize => ({
  maxTokens: undefined,
  choices: 1,
  ...size,
});

it.each(TEXT_CLASSES)('of a hard budget covers the price of %s, whichever class the vendor counts', (one) => {
  const nothing = Object.fromEntries(TEXT_CLASSES.map((name) => [name, 0n]));
  const only = { ...price, ...nothing, [one]: 5_000_000n, tiers: [] } as ModelPrice;
  const size = { inputBytes: 1_000, output: output({ maxTokens: 1_000 }) };
  expect(hardEstimate(size, [only]).costNanoUsd).toBe(5_000n);
});

it('counts the input as text and an output of the usual length', () => {
  expect(balancedEstimate({ inputBytes: 351, output: output() }, price)).toEqual({
    inputTokens: 101,
    outputTokens: 1_024,
    costNanoUsd: 101n + 4n * 1_024n,
  });
});

it("limits the output to the request's limit, and to the model's usual length", () => {
  const tokens = (size: Partial<OutputSize>) =>
    balancedEstimate({ inputBytes: 0, output: output(size) }, price).outputTokens;
  expect(tokens({ maxTokens: 10 })).toBe(10);
  expect(tokens({ maxTokens: 100_000 })).toBe(1_024);
  expect(tokens({ maxTokens: 100_000, usualTokens: 5_000 })).toBe(5_000);
  expect(tokens({ maxTokens: 10, choices: 3 })).toBe(30);
});

it('has no output for a model without output', () => {
  expect(balancedEstimate({ inputBytes: 35, output: undefined }, price)).toMatchObject({
    outputTokens: 0,
    costNanoUsd: 10n,
  });
});

it('is hard: counts bytes as tokens, what the vendor adds, and the longest output', () => {
  const size = { inputBytes: 100, addedInputTokens: 50, output: output({ maxTokens: 10, choices: 2 }) };
  const { costNanoUsd } = hardEstimate(size, [price]);
  expect(costNanoUsd).toBe(9n * 150n + 4n * 20n);
  expect(affordableOutput(size, [price], costNanoUsd + 1n)).toBe(10);
});

it('is hard: counts only the tiers that the input, with what the vendor adds, can reach', () => {
  const dearTier = {
    ...price,
    tiers: [{ ...rates, aboveInputTokens: 1_000, input: 20_000_000n, output: 50_000_000n }],
  };
  const size = (addedInputTokens: number) => ({
    inputBytes: 100,
    addedInputTokens,
    output: output({ maxTokens: 10 }),
  });
  expect(hardEstimate(size(900), [dearTier]).costNanoUsd).toBe(9n * 1_000n + 4n * 10n);
  expect(hardEstimate(size(901), [dearTier]).costNanoUsd).toBe(20n * 1_001n + 50n * 10n);
  expect(affordableOutput(size(900), [dearTier], 9n * 1_000n + 4n * 10n + 1n)).toBe(10);
  expect(affordableOutput(size(901), [dearTier], 20n * 1_001n + 50n * 10n + 1n)).toBe(10);
});

it('is hard: uses the highest of the prices under which the vendor may serve, and adds the tools', () => {
  const size = { inputBytes: 100, output: output({ maxTokens: 10 }), toolCostNanoUsd: 7n };
  const priority = { ...price, input: 20_000_000n, output: 3_000_000n, tiers: [] };
  expect(hardEstimate(size, [price, priority]).costNanoUsd).toBe(20n * 100n + 4n * 10n + 7n);
  expect(affordableOutput(size, [price, priority], 20n * 100n + 4n * 10n + 8n)).toBe(10);
});

it('uses the highest price of the tiers that an input of this length may have, per class', () => {
  const cost = (inputBytes: number) => balancedEstimate({ inputBytes, output: output() }, price).costNanoUsd;
  expect(cost(3_500)).toBe(1_000n + 4n * 1_024n);
  expect(cost(3_501)).toBe(2n * 1_001n + 4n * 1_024n);
});
