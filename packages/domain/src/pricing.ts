import { divideHalfUp, type NanoUsd } from './money.ts';
import { type TokenUsage, totalInputTokens } from './tokenUsage.ts';

/** Prices per one million tokens of each class. */
export interface TokenPrices {
  readonly input: NanoUsd;
  readonly output: NanoUsd;
  readonly cacheRead: NanoUsd;
  readonly cacheWrite: NanoUsd;
  readonly cacheWrite1h: NanoUsd;
}

/** Prices of the whole request, above a number of input tokens (including cached ones). */
export interface PriceTier extends TokenPrices {
  readonly aboveInputTokens: number;
}

export interface ModelPrice extends TokenPrices {
  /** Grows with every change of the model's price. A usage event has the version that it was priced with. */
  readonly version: number;
  readonly tiers: readonly PriceTier[];
}

const TOKENS_PER_PRICE = 1_000_000n;

/** Sums all classes exactly, then rounds half up to a nano-USD, once. */
export function costOf(usage: TokenUsage, price: ModelPrice): NanoUsd {
  const rates = ratesFor(totalInputTokens(usage), price);
  const exact =
    BigInt(usage.inputTokens) * rates.input +
    BigInt(usage.cacheReadTokens) * rates.cacheRead +
    BigInt(usage.cacheWriteTokens) * rates.cacheWrite +
    BigInt(usage.cacheWrite1hTokens) * rates.cacheWrite1h +
    BigInt(usage.outputTokens) * rates.output;
  return divideHalfUp(exact, TOKENS_PER_PRICE);
}

/** True if the price of every class in every tier is zero. */
export function isFree(price: ModelPrice): boolean {
  return [price, ...price.tiers].every(
    (rates) => rates.input + rates.output + rates.cacheRead + rates.cacheWrite + rates.cacheWrite1h === 0n,
  );
}

function ratesFor(inputTokens: number, price: ModelPrice): TokenPrices {
  let rates: TokenPrices = price;
  let reached = 0;
  for (const tier of price.tiers) {
    if (inputTokens > tier.aboveInputTokens && tier.aboveInputTokens >= reached) {
      rates = tier;
      reached = tier.aboveInputTokens;
    }
  }
  return rates;
}
