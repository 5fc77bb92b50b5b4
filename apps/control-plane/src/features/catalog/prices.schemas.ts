import { priceFields, TEXT_CLASSES } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { DateTime, Nullable, OneOf, Strict } from '../../shared/schemas.ts';

/** Above any real price, and low enough that the cost of a request fits a 64-bit integer. */
const MAX_USD = 999_999;

const moneyFields = {
  currency_code: OneOf(['USD'], { title: 'CurrencyCode' }),
  units: Type.Integer({ minimum: 0 }),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
};
/** An amount of money, as in google.type.Money. */
export const Money = Type.Object(moneyFields, { title: 'Money' });
const MoneyInput = Strict(
  { ...moneyFields, units: Type.Integer({ minimum: 0, maximum: MAX_USD }) },
  { title: 'MoneyInput' },
);

const newRates = priceFields(['input', 'output'], MoneyInput, Type.Optional(Nullable(MoneyInput)));
/** Proxies receive it as an unsigned 32-bit integer. */
const AboveInputTokens = Type.Integer({ minimum: 1, maximum: 4_294_967_295 });

const newContextPrices = {
  ...newRates,
  tiers: Type.Optional(
    Type.Array(Strict({ above_input_tokens: AboveInputTokens, ...newRates }, { title: 'NewPriceTier' }), {
      maxItems: 20,
    }),
  ),
};
/** A condition of service as a vendor names it. Absent or null: the one that the list price covers. */
const ConditionName = Type.Optional(Nullable(Type.String({ pattern: '^[a-z0-9_.:-]{1,32}$' })));
const NewVariant = Strict(
  {
    service_tier: ConditionName,
    speed: ConditionName,
    geography: ConditionName,
    ...newContextPrices,
  },
  { title: 'NewPriceVariant' },
);
const PRICES_BY_TOOL = {
  type: 'object',
  propertyNames: { pattern: '^[a-z0-9_]{1,48}$' },
  maxProperties: 32,
};
const PER_USE =
  "Per use of a tool that the vendor runs, by the tool's name: `web_search`, `code_interpreter`.";

/**
 * The price of a request body, per one million tokens. Cached input, and images unless their price is null, cost the same as
 * input if they have no price; other modalities without a price have an unknown one.
 */
export const NewPrice = Strict(
  {
    ...newContextPrices,
    variants: Type.Optional(Type.Array(NewVariant, { maxItems: 32 })),
    tool_prices: Type.Optional(
      Type.Unsafe<Record<string, Static<typeof MoneyInput>>>({
        ...PRICES_BY_TOOL,
        additionalProperties: MoneyInput,
        title: 'NewToolPrices',
        description: PER_USE,
      }),
    ),
  },
  { title: 'NewPrice' },
);
export type NewPrice = Static<typeof NewPrice>;

const rates = priceFields(TEXT_CLASSES, Money, Nullable(Money));
const contextPrices = {
  ...rates,
  tiers: Type.Array(Type.Object({ above_input_tokens: AboveInputTokens, ...rates }, { title: 'PriceTier' })),
};
const Variant = Type.Object(
  {
    service_tier: Nullable(Type.String()),
    speed: Nullable(Type.String()),
    geography: Nullable(Type.String()),
    ...contextPrices,
  },
  {
    title: 'PriceVariant',
    description: 'The prices under conditions of service. Null: the condition that the list price covers.',
  },
);
/** A price with all its classes. Null: not known. */
export const FullPrice = Type.Object(
  {
    ...contextPrices,
    variants: Type.Array(Variant),
    tool_prices: Type.Unsafe<Record<string, Static<typeof Money>>>({
      ...PRICES_BY_TOOL,
      additionalProperties: Money,
      title: 'ToolPrices',
      description: PER_USE,
    }),
  },
  { title: 'FullPrice', description: 'Per one million tokens. Null: not known.' },
);
export type FullPrice = Static<typeof FullPrice>;

export const PriceSource = OneOf(['catalog', 'connector'], {
  title: 'PriceSource',
  description: "Whose price applies: the catalog's, or one negotiated for the connector.",
});

export const CatalogOrigin = OneOf(['catalog', 'feed', 'operator'], {
  title: 'CatalogOrigin',
  description:
    'catalog: it ships with the release. feed: the feed of CATALOG_FEED_URL stated it. operator: an operator set it.',
});

/** A version of a model's price in the catalog. Null: from this version on the model has no price. */
export const CatalogPrice = Type.Object(
  {
    version: Type.Integer(),
    origin: CatalogOrigin,
    price: Nullable(FullPrice),
    created_at: DateTime,
  },
  { title: 'CatalogPrice' },
);
export type CatalogPrice = Static<typeof CatalogPrice>;
