import type { ConditionalPrice, MatchLogic, ModelInfo, ModelPrice } from '@pydantic/genai-prices';
import { dearest, decimalOf, times } from './decimal.ts';
import { type ContextRates, ordered, type PriceClass, type Rates, type Tier } from './rates.ts';

/** The package's prices of a model, from a date on. */
export interface PackagePrice extends ContextRates {
  readonly from: string | null;
  readonly tool_prices: Readonly<Record<string, string>>;
}

const TOKEN_CLASSES: Readonly<Record<string, PriceClass>> = {
  input_mtok: 'input_price',
  output_mtok: 'output_price',
  cache_read_mtok: 'cache_read_price',
  cache_write_mtok: 'cache_write_price',
  cache_write_1h_mtok: 'cache_write_1h_price',
  input_audio_mtok: 'input_audio_price',
  cache_audio_read_mtok: 'cache_read_audio_price',
  output_audio_mtok: 'output_audio_price',
  input_image_mtok: 'input_image_price',
  output_image_mtok: 'output_image_price',
};
/** Token classes of the package that usage is not split into. */
const UNUSED_CLASSES = [
  'cache_image_read_mtok',
  'input_video_mtok',
  'output_video_mtok',
  'cache_write_5m_mtok',
];
/** Per 1,000 uses. */
const TOOLS: Readonly<Record<string, string>> = {
  web_searches_kcount: 'web_search',
  storage_searches_kcount: 'file_search',
};

/** The exact names of a model. What only a prefix or a pattern matches is left out: it may be another model. */
export function exactNames(match: MatchLogic): string[] {
  if ('equals' in match) return [match.equals];
  return 'or' in match ? match.or.flatMap(exactNames) : [];
}

/**
 * The prices of a model by date, oldest first. Where the price depends on the time of day, the dearest holds: a usage
 * event does not say when the vendor started to count. Undefined if tokens have no price.
 */
export function packagePrices(model: ModelInfo): PackagePrice[] | undefined {
  const all: ConditionalPrice[] = Array.isArray(model.prices) ? model.prices : [{ prices: model.prices }];
  const dates = all.flatMap(({ constraint }) =>
    constraint?.type === 'start_date' ? [constraint.start_date] : [],
  );
  const prices = [null, ...[...new Set(dates)].sort()].map((from) => {
    const current = all.map(({ prices }) => toPrice(model.id, prices));
    const inForce = all.findLastIndex(
      ({ constraint }) =>
        !constraint || (constraint.type === 'start_date' && from !== null && constraint.start_date <= from),
    );
    // Later entries win in the package, so a time of day before the one in force is never reached.
    const candidates = current.filter(
      (_, index) => index === inForce || (index > inForce && all[index]?.constraint?.type === 'time_of_date'),
    );
    return candidates.includes(undefined) ? undefined : { from, ...dearestOf(candidates as FlatPrice[]) };
  });
  return prices.includes(undefined) ? undefined : (prices as PackagePrice[]);
}

type FlatPrice = Omit<PackagePrice, 'from'>;

function toPrice(id: string, price: ModelPrice): FlatPrice | undefined {
  const values = new Map<PriceClass, { readonly base: number; readonly tiers: readonly PackageTier[] }>();
  const tool_prices: Record<string, string> = {};
  for (const [key, value] of Object.entries(price)) {
    if (value === undefined) continue;
    const name = TOKEN_CLASSES[key];
    if (name) values.set(name, typeof value === 'number' ? { base: value, tiers: [] } : value);
    else if (TOOLS[key]) tool_prices[TOOLS[key]] = times(decimalOf(value as number), '1/1000');
    else if (key.endsWith('_mtok') && !UNUSED_CLASSES.includes(key))
      throw new Error(`The package prices ${id} by ${key}, which packagePrices.ts does not know.`);
  }
  if (!values.has('input_price')) return undefined;
  const edges = new Set([...values.values()].flatMap(({ tiers }) => tiers.map(({ start }) => start)));
  const at = (edge: number): Rates => {
    const rates = [...values].map(([name, { base, tiers }]) => {
      const reached = tiers.filter(({ start }) => start <= edge).at(-1);
      return [name, decimalOf(reached?.price ?? base)];
    });
    // A vendor that lists no price of output does not bill any, as for embeddings.
    return ordered({ output_price: '0', ...Object.fromEntries(rates) });
  };
  const price_tiers = [...edges]
    .sort((a, b) => a - b)
    .map((edge) => ({ above_input_tokens: edge, ...at(edge) }));
  return { ...at(-1), price_tiers, tool_prices };
}

interface PackageTier {
  readonly start: number;
  readonly price: number;
}

function dearestOf(prices: readonly FlatPrice[]): FlatPrice {
  return prices.reduce((one, other) => {
    const { price_tiers: a, tool_prices: toolsOfOne, ...oneRates } = one;
    const { price_tiers: b, tool_prices: toolsOfOther, ...otherRates } = other;
    if (a.length + b.length > 0 && a.length !== b.length) throw new Error('Tiers differ by the time of day.');
    return {
      ...dearestRates(oneRates as Rates, otherRates as Rates),
      price_tiers: a.map((tier, index) => dearestTier(tier, b[index] ?? tier)),
      tool_prices: { ...toolsOfOne, ...toolsOfOther },
    };
  });
}

function dearestRates(a: Rates, b: Rates): Rates {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<PriceClass>;
  return ordered(
    Object.fromEntries(
      [...names].map((name) => [name, dearest(a[name] ?? a.input_price, b[name] ?? b.input_price)]),
    ),
  );
}

function dearestTier({ above_input_tokens, ...rates }: Tier, other: Tier): Tier {
  return { above_input_tokens, ...dearestRates(rates as Rates, other) };
}
