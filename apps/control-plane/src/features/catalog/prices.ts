import {
  type Money,
  moneyFromNano,
  nanoFromMoney,
  type PriceTier,
  type TokenPrices,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';

/** What a model costs: the prices of its classes, and those above so many input tokens. */
export type Price = TokenPrices & { readonly tiers: readonly PriceTier[] };

/** Prices as a caller gives them, per one million tokens. A class that is left out costs what input costs. */
interface RatesInput {
  readonly input_price: Money;
  readonly output_price: Money;
  readonly cache_read_price?: Money | null;
  readonly cache_write_price?: Money | null;
  /** Left out: as `cache_write_price`. */
  readonly cache_write_1h_price?: Money | null;
}

export type PriceInput = RatesInput & {
  readonly tiers?: readonly (RatesInput & { readonly above_input_tokens: number })[];
};

interface PresentedRates {
  readonly input_price: Money;
  readonly output_price: Money;
  readonly cache_read_price: Money;
  readonly cache_write_price: Money;
  readonly cache_write_1h_price: Money;
}

/** A price as the API shows it. */
export type PresentedPrice = PresentedRates & {
  readonly tiers: (PresentedRates & { readonly above_input_tokens: number })[];
};

/** The columns of a price, in the catalog's table and in the connectors'. An ended one has no rates. */
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

/** Tiers that overlap or do not rise are a 422. */
export function priceFrom(input: PriceInput): Price {
  const tiers = (input.tiers ?? []).map((tier) => ({
    aboveInputTokens: tier.above_input_tokens,
    ...ratesFrom(tier),
  }));
  const rises = tiers.every(
    ({ aboveInputTokens }, index) => aboveInputTokens > (tiers[index - 1]?.aboveInputTokens ?? 0),
  );
  if (!rises) {
    throw new AppError(
      'validation',
      'tiers_invalid',
      'Each tier must begin above more input tokens than the one before it.',
      { param: 'tiers' },
    );
  }
  return { ...ratesFrom(input), tiers };
}

/** The price in a row; undefined where it has ended. */
export function priceOf(row: PriceColumns): Price | undefined {
  if (row.ended) return undefined;
  return { ...ratesOf(row as RateColumns<bigint>), tiers: (row.tiers as TierJson[]).map(tierOf) };
}

export function columnsOf({ tiers, ...rates }: Price) {
  return { ended: false, ...rateColumns(rates), tiers: JSON.stringify(tiers.map(tierJson)) };
}

export function isSamePrice(a: Price | undefined, b: Price): boolean {
  if (!a) return false;
  const [one, other] = [columnsOf(a), columnsOf(b)];
  return CLASSES.every((name) => one[name] === other[name]) && one.tiers === other.tiers;
}

export function presentPrice({ tiers, ...rates }: Price): PresentedPrice {
  return {
    ...presentRates(rates),
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({
      above_input_tokens: aboveInputTokens,
      ...presentRates(tier),
    })),
  };
}

/** A price inside a JSON column: JSON numbers are floats to most readers, so amounts are decimal strings. */
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

function ratesFrom(input: RatesInput): TokenPrices {
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

function presentRates(rates: TokenPrices): PresentedRates {
  return {
    input_price: moneyFromNano(rates.input),
    output_price: moneyFromNano(rates.output),
    cache_read_price: moneyFromNano(rates.cacheRead),
    cache_write_price: moneyFromNano(rates.cacheWrite),
    cache_write_1h_price: moneyFromNano(rates.cacheWrite1h),
  };
}

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
