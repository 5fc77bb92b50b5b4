import type { ServiceConditions } from './meteredUsage.ts';
import type { NanoUsd } from './money.ts';
import {
  byClass,
  type MediaClass,
  OR_ELSE,
  PART_OF,
  TEXT_CLASSES,
  type TextClass,
  TOKEN_CLASSES,
  type TokenClass,
} from './tokenClasses.ts';

/** An amount for each class of tokens. A medium's amount may be unknown: text's does not stand in for it. */
export type Rates<Amount> = Readonly<Record<TextClass, Amount>> &
  Readonly<Partial<Record<MediaClass, Amount | undefined>>>;

/** Prices per one million tokens. */
export type TokenPrices = Rates<NanoUsd>;

/** Prices of the whole request, above a number of input tokens (including cached ones). */
export interface PriceTier extends TokenPrices {
  readonly aboveInputTokens: number;
}

/** Prices that depend on the length of the input. */
export interface ContextPrices extends TokenPrices {
  readonly tiers: readonly PriceTier[];
}

/** The prices under conditions of service that the list price does not cover. */
export interface PriceVariant extends ContextPrices {
  readonly service: ServiceConditions;
}

/** A price in nano-USD: per class of tokens, by number of input tokens, by conditions of service, per use of a tool. */
export interface Price extends ContextPrices {
  readonly variants: readonly PriceVariant[];
  /** Per use of a tool that the vendor runs, by the tool's name. */
  readonly toolPrices: Readonly<Record<string, NanoUsd>>;
}

export interface ModelPrice extends Price {
  /** Grows with every change of the model's price. A usage event has the version that it was priced with. */
  readonly version: number;
}

/** The same classes with other amounts; what is unknown stays unknown. All results have the same keys. */
export function mapRates<From, To>(rates: Rates<From>, amountOf: (amount: From) => To): Rates<To> {
  return byClass((one) => {
    const amount = rates[one];
    return amount === undefined ? undefined : amountOf(amount);
  }) as Rates<To>;
}

/**
 * Completes the amounts that a price states. A class of text without an amount costs what another one does (`OR_ELSE`). So does a
 * medium with such a class, unless it is null: then its price is unknown, as that of any other medium without an amount.
 */
export function completeRates<Amount>(
  stated: Readonly<Record<'input' | 'output', Amount>> &
    Readonly<Partial<Record<TokenClass, Amount | null | undefined>>>,
): Rates<Amount> {
  const rates: Partial<Record<TokenClass, Amount | undefined>> = {};
  for (const one of TOKEN_CLASSES) {
    const amount = stated[one];
    const other = one in PART_OF && amount === null ? undefined : OR_ELSE[one];
    // Its class comes before it in the list.
    rates[one] = amount ?? (other && rates[other]);
  }
  return rates as Rates<Amount>;
}

/** The prices at every length of the input. */
export function withTiers(prices: ContextPrices): readonly TokenPrices[] {
  return [prices, ...prices.tiers];
}

/** The prices of a request with so many input tokens. */
export function ratesFor(inputTokens: number, prices: ContextPrices): TokenPrices {
  let rates: TokenPrices = prices;
  let reached = 0;
  for (const tier of prices.tiers) {
    if (inputTokens > tier.aboveInputTokens && tier.aboveInputTokens >= reached) {
      rates = tier;
      reached = tier.aboveInputTokens;
    }
  }
  return rates;
}

/**
 * How many times as dear a variant is, in thousandths, in the class and at the length of the input where it differs most;
 * at least 1,000.
 */
export function multiplePermille(variant: ContextPrices, list: ContextPrices): bigint {
  const lengths = [...variant.tiers, ...list.tiers].map(({ aboveInputTokens }) => aboveInputTokens + 1);
  let most = 1_000n;
  for (const inputTokens of [0, ...lengths]) {
    const [dear, usual] = [ratesFor(inputTokens, variant), ratesFor(inputTokens, list)];
    for (const textClass of TEXT_CLASSES) {
      if (usual[textClass] === 0n) continue;
      const multiple = (dear[textClass] * 1_000n + usual[textClass] - 1n) / usual[textClass];
      if (multiple > most) most = multiple;
    }
  }
  return most;
}
