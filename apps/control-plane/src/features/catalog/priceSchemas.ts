import { Type } from 'typebox';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

/** Far above any price there is, and low enough that no request's cost leaves the range of a 64-bit integer. */
const MAX_USD = 999_999;

const fields = {
  currency_code: Type.Literal('USD'),
  units: Type.Integer({ minimum: 0 }),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
};
const Money = Type.Object(fields, { title: 'Money' });
const GivenMoney = Strict(
  { ...fields, units: Type.Integer({ minimum: 0, maximum: MAX_USD }) },
  { title: 'MoneyInput' },
);

const givenRates = {
  input_price: GivenMoney,
  output_price: GivenMoney,
  cache_read_price: Type.Optional(Nullable(GivenMoney)),
  cache_write_price: Type.Optional(Nullable(GivenMoney)),
  cache_write_1h_price: Type.Optional(Nullable(GivenMoney)),
};
/** Where a tier begins. It goes to the proxies as an unsigned integer of 32 bits. */
const AboveInputTokens = Type.Integer({ minimum: 1, maximum: 4_294_967_295 });

/** A price as a caller gives it, per one million tokens. A class that is left out costs what input costs. */
export const GivenPrice = Strict(
  {
    ...givenRates,
    tiers: Type.Optional(
      Type.Array(Strict({ above_input_tokens: AboveInputTokens, ...givenRates }), { maxItems: 20 }),
    ),
  },
  {
    title: 'NewPrice',
  },
);

const rates = {
  input_price: Money,
  output_price: Money,
  cache_read_price: Money,
  cache_write_price: Money,
  cache_write_1h_price: Money,
};
export const Price = Type.Object(
  {
    ...rates,
    tiers: Type.Array(Type.Object({ above_input_tokens: AboveInputTokens, ...rates })),
  },
  { title: 'FullPrice', description: 'Per one million tokens.' },
);

/** A version of the catalog's price. */
export const CatalogPrice = Type.Object(
  {
    version: Type.Integer(),
    origin: OneOf(['catalog', 'operator']),
    price: Nullable(Price),
    created_at: DateTime,
  },
  { title: 'CatalogPrice' },
);
