import type { ServiceConditions } from './meteredUsage.ts';
import type { NanoUsd } from './money.ts';

/** Prices per one million tokens of each class. An absent price is not known: it is not the price of text. */
export interface TokenPrices {
  readonly input: NanoUsd;
  readonly output: NanoUsd;
  readonly cacheRead: NanoUsd;
  readonly cacheWrite: NanoUsd;
  readonly cacheWrite1h: NanoUsd;
  readonly inputAudio?: NanoUsd | undefined;
  readonly inputImage?: NanoUsd | undefined;
  readonly cacheReadAudio?: NanoUsd | undefined;
  readonly outputAudio?: NanoUsd | undefined;
  readonly outputImage?: NanoUsd | undefined;
}

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

export interface ModelPrice extends ContextPrices {
  /** Grows with every change of the model's price. A usage event has the version that it was priced with. */
  readonly version: number;
  readonly variants: readonly PriceVariant[];
  /** Per use of a tool that the vendor runs, by the tool's name. */
  readonly toolPrices: Readonly<Record<string, NanoUsd>>;
}

/** The token classes that every price has. */
export const TEXT_CLASSES = ['input', 'output', 'cacheRead', 'cacheWrite', 'cacheWrite1h'] as const;

export type TextClass = (typeof TEXT_CLASSES)[number];

/** The token classes besides text. Prices and usage name them alike. */
export const MEDIA_CLASSES = [
  'inputAudio',
  'inputImage',
  'cacheReadAudio',
  'outputAudio',
  'outputImage',
] as const;

export type MediaClass = (typeof MEDIA_CLASSES)[number];

/** What the API and files call the price of each class, in the order in which they are written. */
export const PRICE_FIELDS: Readonly<Record<TextClass | MediaClass, string>> = {
  input: 'input_price',
  output: 'output_price',
  cacheRead: 'cache_read_price',
  cacheWrite: 'cache_write_price',
  cacheWrite1h: 'cache_write_1h_price',
  inputAudio: 'input_audio_price',
  inputImage: 'input_image_price',
  cacheReadAudio: 'cache_read_audio_price',
  outputAudio: 'output_audio_price',
  outputImage: 'output_image_price',
};

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
