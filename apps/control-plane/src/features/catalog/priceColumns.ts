import type { PriceTier, TokenPrices } from '@weighbridge/domain';
import type { Price } from './prices.ts';

/** The columns of a price in `model_prices` and `connector_prices`. An ended price has no rates. */
export interface PriceColumns {
  readonly ended: boolean;
  readonly input_nano_usd: bigint | null;
  readonly output_nano_usd: bigint | null;
  readonly cache_read_nano_usd: bigint | null;
  readonly cache_write_nano_usd: bigint | null;
  readonly cache_write_1h_nano_usd: bigint | null;
  readonly tiers: unknown;
}

export const ENDED_PRICE = {
  ended: true,
  input_nano_usd: null,
  output_nano_usd: null,
  cache_read_nano_usd: null,
  cache_write_nano_usd: null,
  cache_write_1h_nano_usd: null,
  tiers: '[]',
} as const;

/** The price of a row; undefined if it has ended. */
export function priceOf(row: PriceColumns): Price | undefined {
  if (row.ended) return undefined;
  return { ...ratesOf(row as RateColumns<bigint>), tiers: (row.tiers as TierJson[]).map(tierOf) };
}

export function priceColumns({ tiers, ...rates }: Price) {
  return { ended: false, ...rateColumns(rates), tiers: JSON.stringify(tiers.map(tierJson)) };
}

export function isSamePrice(a: Price | undefined, b: Price): boolean {
  if (!a) return false;
  const [one, other] = [priceColumns(a), priceColumns(b)];
  return CLASSES.every((name) => one[name] === other[name]) && one.tiers === other.tiers;
}

/** A price in a JSON column. Amounts are decimal strings, since most readers parse JSON numbers as floats. */
export type PriceJson = RateColumns<string> & { readonly tiers: readonly TierJson[] };

export function priceToJson({ tiers, ...rates }: Price): PriceJson {
  return { ...textColumns(rates), tiers: tiers.map(tierJson) };
}

export function priceFromJson({ tiers, ...rates }: PriceJson): Price {
  return { ...ratesOf(rates), tiers: tiers.map(tierOf) };
}

const CLASSES = [
  'input_nano_usd',
  'output_nano_usd',
  'cache_read_nano_usd',
  'cache_write_nano_usd',
  'cache_write_1h_nano_usd',
] as const;
type RateColumns<Amount> = Readonly<Record<(typeof CLASSES)[number], Amount>>;
type TierJson = RateColumns<string> & { readonly above_input_tokens: number };

function rateColumns(rates: TokenPrices): RateColumns<bigint> {
  return {
    input_nano_usd: rates.input,
    output_nano_usd: rates.output,
    cache_read_nano_usd: rates.cacheRead,
    cache_write_nano_usd: rates.cacheWrite,
    cache_write_1h_nano_usd: rates.cacheWrite1h,
  };
}

function textColumns(rates: TokenPrices): RateColumns<string> {
  const columns = rateColumns(rates);
  return Object.fromEntries(CLASSES.map((name) => [name, String(columns[name])])) as RateColumns<string>;
}

function ratesOf(columns: RateColumns<bigint | string>): TokenPrices {
  return {
    input: BigInt(columns.input_nano_usd),
    output: BigInt(columns.output_nano_usd),
    cacheRead: BigInt(columns.cache_read_nano_usd),
    cacheWrite: BigInt(columns.cache_write_nano_usd),
    cacheWrite1h: BigInt(columns.cache_write_1h_nano_usd),
  };
}

function tierJson({ aboveInputTokens, ...rates }: PriceTier): TierJson {
  return { above_input_tokens: aboveInputTokens, ...textColumns(rates) };
}

function tierOf({ above_input_tokens, ...rates }: TierJson): PriceTier {
  return { aboveInputTokens: above_input_tokens, ...ratesOf(rates) };
}
