import type { NanoUsd, TokenClass } from '@weighbridge/domain';
import {
  abilities,
  amount,
  checkedTiers,
  dearerOf,
  type Fields,
  fieldsOf,
  type ListEntry,
  ListEntryError,
  type ListedModel,
  type ListedPrice,
  type ListedRates,
  tokenCount,
} from './listedPrice.ts';

/** Their ids of providers that have another name here. */
const PROVIDERS: ReadonlyMap<string, string> = new Map([
  ['google', 'gemini'],
  ['x-ai', 'xai'],
]);

const CLASSES: Readonly<Record<string, TokenClass>> = {
  input_mtok: 'input',
  output_mtok: 'output',
  // Reasoning is output: the dearer of the two holds.
  output_reasoning_mtok: 'output',
  cache_read_mtok: 'cacheRead',
  cache_write_mtok: 'cacheWrite',
  cache_write_1h_mtok: 'cacheWrite1h',
  input_audio_mtok: 'inputAudio',
  output_audio_mtok: 'outputAudio',
  cache_audio_read_mtok: 'cacheReadAudio',
  input_image_mtok: 'inputImage',
  output_image_mtok: 'outputImage',
};
/** What follows the name of a model in that of a release of it. */
const RELEASE = /^-(?:latest|\d{4}-\d{2}-\d{2}|\d{8})$/;
/** How deep `match` is read. */
const MAX_DEPTH = 4;

/** `prices/…/data.json` of genai-prices: a list of providers, each with a list of models, in dollars per million tokens. */
export function isGenaiPrices(content: unknown): content is readonly Fields[] {
  return (
    Array.isArray(content) &&
    content.length > 0 &&
    content.every((provider) => {
      const { id, models } = fieldsOf(provider) ?? {};
      return typeof id === 'string' && Array.isArray(models);
    })
  );
}

export function* genaiPricesEntries(content: readonly Fields[], now: Date): Iterable<ListEntry> {
  for (const { id, models } of content) {
    const provider = PROVIDERS.get(String(id)) ?? String(id);
    for (const value of models as readonly unknown[]) {
      const model = fieldsOf(value) ?? {};
      // Only exact names: a prefix also fits later models with other prices.
      for (const name of new Set([...ownName(model), ...exactNames(model.match, 0)])) {
        yield {
          key: name,
          id: `${provider}/${name}`,
          read: () => priceOf(model.prices, now),
          describe: () => (name === model.id ? describe(model) : undefined),
        };
      }
    }
  }
}

/** The list states no abilities. */
function describe(model: Fields): ListedModel | undefined {
  const name = String(model.id);
  const contextWindow = tokenCount(model.context_window);
  if (contextWindow === undefined) return undefined;
  const names = exactNames(model.match, 0);
  if (!names.includes(name)) return undefined;
  const otherNames = names.filter((one) => one.startsWith(name) && RELEASE.test(one.slice(name.length)));
  return {
    contextWindow,
    maxOutputTokens: null,
    capabilities: abilities([], /embed/.test(name)),
    otherNames,
    endsOn: undefined,
    isForNewRequests: model.deprecated !== true,
    alsoPriced: [],
  };
}

function ownName({ id }: Fields): string[] {
  return typeof id === 'string' ? [id] : [];
}

function exactNames(match: unknown, depth: number): string[] {
  const { equals, or } = fieldsOf(match) ?? {};
  if (typeof equals === 'string') return [equals];
  if (!Array.isArray(or) || depth === MAX_DEPTH) return [];
  return or.flatMap((one) => exactNames(one, depth + 1));
}

/** The price that is in force: the last whose date has come. Where it depends on the time of day, the dearest. */
function priceOf(prices: unknown, now: Date): ListedPrice | undefined {
  if (!Array.isArray(prices)) return flatPrice(fieldsOf(prices) ?? {});
  const today = now.toISOString().slice(0, 10);
  const all = prices.map((one) => fieldsOf(one) ?? {});
  const inForce = all.findLastIndex(({ constraint }) => {
    const condition = fieldsOf(constraint);
    if (!condition) return true;
    return typeof condition.start_date === 'string' && condition.start_date <= today;
  });
  const timed = all.filter(({ constraint }, index) => index > inForce && fieldsOf(constraint)?.start_time);
  const base = all[inForce];
  const read = [...(base ? [base] : []), ...timed].map((one) => flatPrice(fieldsOf(one.prices) ?? {}));
  return read.reduce((one, other) => (one && other ? dearestOf(one, other) : (one ?? other)), undefined);
}

type Rates = Partial<Record<TokenClass, NanoUsd>>;

function flatPrice(prices: Fields): ListedPrice | undefined {
  const rates: Rates = {};
  const byLength = new Map<number, Rates>();
  for (const [key, value] of Object.entries(prices)) {
    const name = Object.hasOwn(CLASSES, key) ? CLASSES[key] : undefined;
    if (!name) continue;
    const tiered = fieldsOf(value);
    const base = dearerOf(rates[name], amount(tiered ? tiered.base : value, 0));
    if (base !== undefined) rates[name] = base;
    if (tiered) addTiers(byLength, name, tiered.tiers);
  }
  if (rates.input === undefined) return undefined;
  const tiers = [...byLength].map(([aboveInputTokens, ofTier]) => ({ aboveInputTokens, rates: ofTier }));
  // A vendor that lists no price of output does not bill any, as for embeddings.
  return { rates: { ...rates, output: rates.output ?? 0n } as ListedRates, tiers: checkedTiers(tiers) };
}

function addTiers(byLength: Map<number, Rates>, name: keyof Rates, tiers: unknown): void {
  if (!Array.isArray(tiers)) throw new ListEntryError('its prices by length are no list');
  for (const value of tiers) {
    const { start, price } = fieldsOf(value) ?? {};
    const ofTier = byLength.get(Number(start)) ?? {};
    const dearest = dearerOf(ofTier[name], amount(price, 0));
    if (dearest !== undefined) ofTier[name] = dearest;
    byLength.set(Number(start), ofTier);
  }
}

function dearestOf(one: ListedPrice, other: ListedPrice): ListedPrice {
  const names = Object.keys({ ...one.rates, ...other.rates }) as (keyof ListedRates)[];
  const rates = Object.fromEntries(names.map((name) => [name, dearerOf(one.rates[name], other.rates[name])]));
  return { rates: rates as ListedRates, tiers: one.tiers.length > 0 ? one.tiers : other.tiers };
}
