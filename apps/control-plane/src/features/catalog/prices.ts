import {
  type ContextPrices,
  type Money,
  moneyFromNano,
  nanoFromMoney,
  type TokenPrices,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { FullPrice, NewPrice } from './prices.schemas.ts';

/** The price of a model, in nano-USD per token class, and its tiers by number of input tokens. */
export type Price = ContextPrices;

/** Parses the price of a request body; throws a 422 if its tiers do not rise. */
export function parsePrice(input: NewPrice): Price {
  const tiers = (input.tiers ?? []).map((tier) => ({
    aboveInputTokens: tier.above_input_tokens,
    ...parseRates(tier),
  }));
  const rises = tiers.every(
    ({ aboveInputTokens }, index) => aboveInputTokens > (tiers[index - 1]?.aboveInputTokens ?? 0),
  );
  if (!rises) {
    throw new AppError('validation', 'tiers_invalid', 'above_input_tokens must rise from tier to tier.', {
      param: 'tiers',
    });
  }
  return { ...parseRates(input), tiers };
}

/** A price as the API shows it. */
export function toFullPrice({ tiers, ...rates }: Price): FullPrice {
  return {
    ...toRates(rates),
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({
      above_input_tokens: aboveInputTokens,
      ...toRates(tier),
    })),
  };
}

function parseRates(input: Omit<NewPrice, 'tiers'>): TokenPrices {
  const or = (price: Money | null | undefined, other: bigint) => (price ? nanoFromMoney(price) : other);
  const inputPrice = nanoFromMoney(input.input_price);
  const cacheWrite = or(input.cache_write_price, inputPrice);
  return {
    input: inputPrice,
    output: nanoFromMoney(input.output_price),
    cacheRead: or(input.cache_read_price, inputPrice),
    cacheWrite,
    cacheWrite1h: or(input.cache_write_1h_price, cacheWrite),
  };
}

function toRates(rates: TokenPrices): Omit<FullPrice, 'tiers'> {
  return {
    input_price: moneyFromNano(rates.input),
    output_price: moneyFromNano(rates.output),
    cache_read_price: moneyFromNano(rates.cacheRead),
    cache_write_price: moneyFromNano(rates.cacheWrite),
    cache_write_1h_price: moneyFromNano(rates.cacheWrite1h),
  };
}
