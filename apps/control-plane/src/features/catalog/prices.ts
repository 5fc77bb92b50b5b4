import {
  type Money,
  moneyFromNano,
  nanoFromMoney,
  type PriceTier,
  type TokenPrices,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Static, Type } from 'typebox';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

/** The price of a model, in nano-USD per token class, and its tiers by number of input tokens. */
export type Price = TokenPrices & { readonly tiers: readonly PriceTier[] };

/** Above any real price, and low enough that the cost of a request fits a 64-bit integer. */
const MAX_USD = 999_999;

const moneyFields = {
  currency_code: Type.Literal('USD'),
  units: Type.Integer({ minimum: 0 }),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
};
const MoneySchema = Type.Object(moneyFields, { title: 'Money' });
const MoneyInput = Strict(
  { ...moneyFields, units: Type.Integer({ minimum: 0, maximum: MAX_USD }) },
  { title: 'MoneyInput' },
);

const newRates = {
  input_price: MoneyInput,
  output_price: MoneyInput,
  cache_read_price: Type.Optional(Nullable(MoneyInput)),
  cache_write_price: Type.Optional(Nullable(MoneyInput)),
  cache_write_1h_price: Type.Optional(Nullable(MoneyInput)),
};
/** Proxies receive it as an unsigned 32-bit integer. */
const AboveInputTokens = Type.Integer({ minimum: 1, maximum: 4_294_967_295 });

/** The price of a request body, per one million tokens. Classes without a price cost the same as input. */
export const NewPrice = Strict(
  {
    ...newRates,
    tiers: Type.Optional(
      Type.Array(Strict({ above_input_tokens: AboveInputTokens, ...newRates }), { maxItems: 20 }),
    ),
  },
  { title: 'NewPrice' },
);
export type NewPrice = Static<typeof NewPrice>;

const rates = {
  input_price: MoneySchema,
  output_price: MoneySchema,
  cache_read_price: MoneySchema,
  cache_write_price: MoneySchema,
  cache_write_1h_price: MoneySchema,
};
/** A price with all its classes. */
export const FullPrice = Type.Object(
  {
    ...rates,
    tiers: Type.Array(Type.Object({ above_input_tokens: AboveInputTokens, ...rates })),
  },
  { title: 'FullPrice', description: 'Per one million tokens.' },
);
export type FullPrice = Static<typeof FullPrice>;

/** A version of a model's price in the catalog. Null: from this version on the model has no price. */
export const CatalogPrice = Type.Object(
  {
    version: Type.Integer(),
    origin: OneOf(['catalog', 'operator']),
    price: Nullable(FullPrice),
    created_at: DateTime,
  },
  { title: 'CatalogPrice' },
);
export type CatalogPrice = Static<typeof CatalogPrice>;

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
