import { type Static, Type } from 'typebox';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

/** Above any real price, and low enough that the cost of a request fits a 64-bit integer. */
const MAX_USD = 999_999;

const moneyFields = {
  currency_code: Type.Literal('USD'),
  units: Type.Integer({ minimum: 0 }),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
};
const Money = Type.Object(moneyFields, { title: 'Money' });
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
  input_price: Money,
  output_price: Money,
  cache_read_price: Money,
  cache_write_price: Money,
  cache_write_1h_price: Money,
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
