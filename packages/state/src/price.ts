import type { MessageInitShape } from '@bufbuild/protobuf';
import type {
  Price as PriceMessage,
  PriceSchema,
  Rates as RatesMessage,
  RatesSchema,
} from '@weighbridge/contracts';
import {
  byClass,
  type ContextPrices,
  classKeys,
  type MediaClass,
  type ModelPrice,
  mapRates,
  type Price,
  type PriceTier,
  type PriceVariant,
  type Rates,
  type TextClass,
  TOKEN_CLASSES,
  type TokenClass,
  type TokenPrices,
} from '@weighbridge/domain';

const COLUMNS = classKeys('', '_nano_usd');
type Column<Class extends TokenClass = TokenClass> = (typeof COLUMNS)[Class];

/** The columns of a price in `model_prices` and `connector_prices`. An ended price has no rates. */
export type PriceColumns = Readonly<Record<Column, bigint | null>> & {
  readonly ended: boolean;
  readonly tiers: unknown;
  readonly variants: unknown;
  readonly tool_prices: unknown;
};

export const ENDED_PRICE = {
  ended: true,
  ...(Object.fromEntries(TOKEN_CLASSES.map((one) => [COLUMNS[one], null])) as Record<Column, null>),
  tiers: '[]',
  variants: '[]',
  tool_prices: '{}',
} as const;

/** The names of the columns above. */
export const PRICE_COLUMNS = Object.keys(ENDED_PRICE) as (keyof typeof ENDED_PRICE)[];

/** The price of a row; undefined if it has ended. */
export function priceOf(row: PriceColumns): Price | undefined {
  if (row.ended) return undefined;
  return {
    ...ratesOf(row as RateColumns<bigint>),
    tiers: (row.tiers as TierJson[]).map(tierOf),
    variants: (row.variants as VariantJson[]).map(variantOf),
    toolPrices: toolPricesOf(row.tool_prices as Record<string, string>),
  };
}

/** As `priceOf`, with its version. */
export function modelPriceOf(row: PriceColumns & { readonly version: number }): ModelPrice | undefined {
  const price = priceOf(row);
  return price && { version: row.version, ...price };
}

export function priceColumns({ tiers, variants, toolPrices, ...rates }: Price) {
  return {
    ended: false,
    ...(Object.fromEntries(TOKEN_CLASSES.map((one) => [COLUMNS[one], rates[one] ?? null])) as Record<
      Column<TextClass>,
      bigint
    > &
      Record<Column<MediaClass>, bigint | null>),
    tiers: JSON.stringify(tiers.map(tierJson)),
    variants: JSON.stringify(variants.map(variantJson)),
    tool_prices: JSON.stringify(toolPricesJson(toolPrices)),
  };
}

export function isSamePrice(a: Price | undefined, b: Price): boolean {
  if (!a) return false;
  const [one, other] = [comparable(a), comparable(b)];
  return PRICE_COLUMNS.every((name) => one[name] === other[name]);
}

/** The order of variants means nothing: each is for other conditions. */
function comparable(price: Price) {
  const text = ({ service }: PriceVariant) => JSON.stringify(Object.values(service));
  const variants = price.variants.toSorted((a, b) => (text(a) < text(b) ? -1 : 1));
  return priceColumns({ ...price, variants });
}

/** A price in a JSON column. Amounts are decimal strings, since most readers parse JSON numbers as floats. */
export type PriceJson = RateColumns<string> & {
  readonly tiers: readonly TierJson[];
  readonly variants?: readonly VariantJson[];
  readonly tool_prices?: Readonly<Record<string, string>>;
};

/** Without what the price does not have, as rows of earlier releases are. */
export function priceToJson({ tiers, variants, toolPrices, ...rates }: Price): PriceJson {
  return {
    ...textColumns(rates),
    tiers: tiers.map(tierJson),
    ...(variants.length > 0 && { variants: variants.map(variantJson) }),
    ...(Object.keys(toolPrices).length > 0 && { tool_prices: toolPricesJson(toolPrices) }),
  };
}

export function priceFromJson({ tiers, variants = [], tool_prices = {}, ...rates }: PriceJson): Price {
  return {
    ...ratesOf(rates),
    tiers: tiers.map(tierOf),
    variants: variants.map(variantOf),
    toolPrices: toolPricesOf(tool_prices),
  };
}

type RateColumns<Amount> = Readonly<Record<Column<TextClass>, Amount>> &
  Readonly<Partial<Record<Column<MediaClass>, Amount | null>>>;
type TierJson = RateColumns<string> & { readonly above_input_tokens: number };
type VariantJson = RateColumns<string> & {
  readonly service_tier: string;
  readonly speed: string;
  readonly geography: string;
  readonly tiers: readonly TierJson[];
};

function textColumns(rates: TokenPrices): RateColumns<string> {
  const known = TOKEN_CLASSES.flatMap((one) =>
    rates[one] === undefined ? [] : [[COLUMNS[one], String(rates[one])]],
  );
  return Object.fromEntries(known) as RateColumns<string>;
}

function ratesOf(columns: RateColumns<bigint | string>): TokenPrices {
  const amounts = byClass((one) => columns[COLUMNS[one]] ?? undefined) as Rates<bigint | string>;
  return mapRates(amounts, BigInt);
}

function tierJson({ aboveInputTokens, ...rates }: PriceTier): TierJson {
  return { above_input_tokens: aboveInputTokens, ...textColumns(rates) };
}

function tierOf({ above_input_tokens, ...rates }: TierJson): PriceTier {
  return { aboveInputTokens: above_input_tokens, ...ratesOf(rates) };
}

function variantJson({ service, tiers, ...rates }: PriceVariant): VariantJson {
  const { serviceTier, speed, geography } = service;
  const conditions = { service_tier: serviceTier, speed, geography };
  return { ...conditions, ...textColumns(rates), tiers: tiers.map(tierJson) };
}

function variantOf({ service_tier, speed, geography, tiers, ...rates }: VariantJson): PriceVariant {
  const service = { serviceTier: service_tier, speed, geography };
  return { service, ...ratesOf(rates), tiers: tiers.map(tierOf) };
}

/** By name, so that the same prices are the same text. */
function toolPricesJson(toolPrices: Price['toolPrices']): Record<string, string> {
  const byName = Object.entries(toolPrices).sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(byName.map(([tool, perUse]) => [tool, String(perUse)]));
}

function toolPricesOf(json: Readonly<Record<string, string>>): Price['toolPrices'] {
  return Object.fromEntries(Object.entries(json).map(([tool, perUse]) => [tool, BigInt(perUse)]));
}

/** The price as proxies get it. */
export function priceMessage(version: number, { variants, toolPrices, ...prices }: Price) {
  return {
    version,
    ...contextMessage(prices),
    variants: variants.map(({ service, ...variant }) => ({ ...service, ...contextMessage(variant) })),
    toolPrices,
  } satisfies MessageInitShape<typeof PriceSchema>;
}

/** The inverse of `priceMessage`; undefined without rates: an unknown price is never zero. */
export function priceOfMessage(message: PriceMessage | undefined): ModelPrice | undefined {
  if (!message?.rates) return undefined;
  return {
    version: message.version,
    ...contextOf(message.rates, message.tiers),
    variants: message.variants.flatMap(({ serviceTier, speed, geography, rates, tiers }) =>
      rates ? [{ service: { serviceTier, speed, geography }, ...contextOf(rates, tiers) }] : [],
    ),
    toolPrices: message.toolPrices,
  };
}

function contextMessage({ tiers, ...rates }: ContextPrices) {
  return {
    rates: ratesMessage(rates),
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({ aboveInputTokens, rates: ratesMessage(tier) })),
  };
}

/** The message has a field for each class, under its name here. An unknown price is an absent field. */
function ratesMessage(rates: TokenPrices): MessageInitShape<typeof RatesSchema> {
  const known = TOKEN_CLASSES.filter((one) => rates[one] !== undefined);
  return Object.fromEntries(known.map((one) => [one, rates[one]]));
}

function contextOf(rates: RatesMessage, tiers: PriceMessage['tiers']): ContextPrices {
  return {
    ...ratesOfMessage(rates),
    tiers: tiers.flatMap(({ aboveInputTokens, rates: above }) =>
      above ? [{ aboveInputTokens, ...ratesOfMessage(above) }] : [],
    ),
  };
}

function ratesOfMessage(rates: RatesMessage): TokenPrices {
  return byClass((one) => rates[one]) as TokenPrices;
}
