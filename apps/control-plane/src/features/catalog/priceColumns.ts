import type { ModelPrice, PriceTier, PriceVariant, TokenPrices } from '@weighbridge/domain';
import type { Price } from './prices.ts';

/** The columns of a price in `model_prices` and `connector_prices`. An ended price has no rates. */
export type PriceColumns = Readonly<Record<TextColumn | MediaColumn, bigint | null>> & {
  readonly ended: boolean;
  readonly tiers: unknown;
  readonly variants: unknown;
  readonly tool_prices: unknown;
};

export const ENDED_PRICE = {
  ended: true,
  input_nano_usd: null,
  output_nano_usd: null,
  cache_read_nano_usd: null,
  cache_write_nano_usd: null,
  cache_write_1h_nano_usd: null,
  input_audio_nano_usd: null,
  input_image_nano_usd: null,
  cache_read_audio_nano_usd: null,
  output_audio_nano_usd: null,
  output_image_nano_usd: null,
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
    ...(Object.fromEntries(
      [...TEXT_COLUMNS, ...MEDIA_COLUMNS].map(([column, name]) => [column, rates[name] ?? null]),
    ) as Record<TextColumn, bigint> & Record<MediaColumn, bigint | null>),
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

const TEXT_COLUMNS = [
  ['input_nano_usd', 'input'],
  ['output_nano_usd', 'output'],
  ['cache_read_nano_usd', 'cacheRead'],
  ['cache_write_nano_usd', 'cacheWrite'],
  ['cache_write_1h_nano_usd', 'cacheWrite1h'],
] as const;
const MEDIA_COLUMNS = [
  ['input_audio_nano_usd', 'inputAudio'],
  ['input_image_nano_usd', 'inputImage'],
  ['cache_read_audio_nano_usd', 'cacheReadAudio'],
  ['output_audio_nano_usd', 'outputAudio'],
  ['output_image_nano_usd', 'outputImage'],
] as const;
type TextColumn = (typeof TEXT_COLUMNS)[number][0];
type MediaColumn = (typeof MEDIA_COLUMNS)[number][0];
type RateColumns<Amount> = Readonly<Record<TextColumn, Amount> & Partial<Record<MediaColumn, Amount | null>>>;
type TierJson = RateColumns<string> & { readonly above_input_tokens: number };
type VariantJson = RateColumns<string> & {
  readonly service_tier: string;
  readonly speed: string;
  readonly geography: string;
  readonly tiers: readonly TierJson[];
};

function textColumns(rates: TokenPrices): RateColumns<string> {
  const known = [...TEXT_COLUMNS, ...MEDIA_COLUMNS].flatMap(([column, name]) =>
    rates[name] === undefined ? [] : [[column, String(rates[name])]],
  );
  return Object.fromEntries(known) as RateColumns<string>;
}

function ratesOf(columns: RateColumns<bigint | string>): TokenPrices {
  const text = TEXT_COLUMNS.map(([column, name]) => [name, BigInt(columns[column])]);
  const media = MEDIA_COLUMNS.flatMap(([column, name]) => {
    const amount = columns[column] ?? undefined;
    return amount === undefined ? [] : [[name, BigInt(amount)]];
  });
  return Object.fromEntries([...text, ...media]) as TokenPrices;
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
