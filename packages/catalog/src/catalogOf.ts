import type { ModelInfo } from '@pydantic/genai-prices';
import { dearest, times } from './decimal.ts';
import type { Facts, ModelFacts } from './facts.ts';
import { otherNames } from './otherNames.ts';
import { exactNames, type PackagePrice, packagePrices } from './packagePrices.ts';
import { type ContextRates, type DatedPrice, ordered, type Rates, type Tier } from './rates.ts';
import { variantsOf } from './variants.ts';

/** The release of the package that prices are taken from. */
export interface Release {
  readonly version: string;
  readonly date: string;
}

type CatalogModel = Pick<
  ModelFacts,
  'name' | 'own' | 'context_window' | 'max_output_tokens' | 'capabilities' | 'released_at' | 'deprecated_at'
> &
  Pick<ModelFacts, 'benchmark_scores' | 'sources'> & {
    readonly other_names: readonly string[];
    /** Oldest first. Empty: no price is known, so no one can use it. */
    readonly prices: readonly DatedPrice[];
    readonly unpriced?: string;
    readonly note?: string;
  };

export interface Catalog {
  readonly provider: string;
  readonly as_of: string;
  readonly source: string;
  readonly own_models: boolean;
  readonly sources: Facts['sources'];
  readonly models: readonly CatalogModel[];
}

const PACKAGE = 'genai-prices';

/** The catalog of a provider: the package's prices and our facts. Throws if they contradict or leave a model out. */
export function catalogOf(facts: Facts, models: readonly ModelInfo[], release: Release): Catalog {
  const byName = new Map<string, ModelInfo>();
  for (const model of models) for (const name of exactNames(model.match)) byName.set(name, model);
  const unlisted = models.filter((model) => !isListed(facts, model));
  const listed = [...facts.models, ...unlisted.map((model) => withoutFacts(facts.provider, model))];
  checkPairs(facts);
  const names = new Set(listed.map(({ name }) => name));
  if (names.size !== listed.length) throw new Error(`${facts.provider}: a model is listed twice.`);
  const entries = listed.map((model) => {
    const inPackage = byName.get(model.name) ?? models.find(({ id }) => id === model.priced_as);
    return entryOf(facts, model, inPackage, otherNames(model.name, byName.get(model.name), names));
  });
  return {
    provider: facts.provider,
    as_of: facts.package_provider === null ? newest(facts) : release.date,
    source: facts.source,
    own_models: facts.own_models,
    sources: {
      ...(facts.package_provider !== null && {
        [PACKAGE]: {
          name: `the npm package @pydantic/genai-prices ${release.version}`,
          url: 'https://github.com/pydantic/genai-prices',
          date: release.date,
        },
      }),
      ...facts.sources,
    },
    models: entries.sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
}

const DATE = /[-@](\d{4}-\d{2}-\d{2}|\d{8})$/;

/** A model can do the same by its name with a date as by the one without. Throws if the facts say otherwise. */
function checkPairs({ provider, models }: Facts): void {
  const capabilities = new Map(models.map((model) => [model.name, model.capabilities.toSorted().join(', ')]));
  for (const [name, own] of capabilities) {
    const undated = name.replace(DATE, '');
    const others = capabilities.get(undated);
    if (others !== undefined && others !== own)
      throw new Error(
        `${provider}: ${name} can do ${own}, and ${undated} ${others}. Give them the same capabilities.`,
      );
  }
}

function newest(facts: Facts): string {
  return (
    Object.values(facts.sources)
      .map(({ date }) => date)
      .sort()
      .at(-1) ?? ''
  );
}

function isListed({ models, excluded }: Facts, model: ModelInfo): boolean {
  const names = [model.id, ...exactNames(model.match)];
  return (
    excluded[model.id] !== undefined ||
    models.some(({ name, priced_as }) => names.includes(name) || priced_as === model.id)
  );
}

/** A model that only the package has is listed if that says enough. */
function withoutFacts(provider: string, model: ModelInfo): ModelFacts {
  const { id, context_window } = model;
  if (!context_window || !exactNames(model.match).includes(id) || !packagePrices(model)) {
    throw new Error(
      `${provider}: the package has the model ${id}, without an exact name, a price per token or a context window. Add it to the facts, or to excluded with the reason.`,
    );
  }
  return {
    name: id,
    context_window,
    max_output_tokens: null,
    capabilities: [],
    released_at: null,
    deprecated_at: null,
    benchmark_scores: {},
    sources: [],
  };
}

function entryOf(
  facts: Facts,
  model: ModelFacts,
  inPackage: ModelInfo | undefined,
  other_names: readonly string[],
): CatalogModel {
  const fromPackage = inPackage && packagePrices(inPackage);
  const base = basePrices(facts.provider, model, fromPackage);
  const isOfPackage = base === fromPackage && base !== undefined;
  return {
    name: model.name,
    ...(model.own !== undefined && { own: model.own }),
    other_names,
    prices: withoutRepetition((base ?? []).map((price) => fullPrice(facts, model, price))),
    ...(model.unpriced && { unpriced: model.unpriced }),
    context_window: model.context_window,
    max_output_tokens: model.max_output_tokens,
    capabilities: model.capabilities,
    released_at: model.released_at,
    deprecated_at: model.deprecated_at,
    benchmark_scores: model.benchmark_scores,
    ...(model.note && { note: model.note }),
    sources: [...(isOfPackage ? [PACKAGE] : []), ...model.sources],
  };
}

/** Our own prices where we state them, else the package's. Undefined: none is known, and the facts say why. */
function basePrices(
  provider: string,
  model: ModelFacts,
  fromPackage: readonly PackagePrice[] | undefined,
): readonly PackagePrice[] | undefined {
  const at = `${provider}/${model.name}`;
  if (model.unpriced) {
    if (model.prices || fromPackage) throw new Error(`${at} is called unpriced, and has a price.`);
    return undefined;
  }
  if (!model.prices) {
    if (!fromPackage)
      throw new Error(`${at} has no price: add prices, priced_as or unpriced with the reason.`);
    return fromPackage;
  }
  checkInstead(at, model, fromPackage?.at(-1));
  return model.prices.map(({ from, price_tiers = [], ...rates }) => ({
    from,
    ...ordered(rates),
    price_tiers: price_tiers.map(({ above_input_tokens, ...ofTier }) => ({
      above_input_tokens,
      ...ordered(ofTier),
    })),
    tool_prices: fromPackage?.at(-1)?.tool_prices ?? {},
  }));
}

function checkInstead(
  at: string,
  { instead_of_package }: ModelFacts,
  packages: PackagePrice | undefined,
): void {
  const says = packages && `${packages.input_price} / ${packages.output_price}`;
  const expected =
    instead_of_package && `${instead_of_package.input_price} / ${instead_of_package.output_price}`;
  if (says !== expected) {
    throw new Error(
      `${at}: our own price was written when the package had ${expected ?? 'none'}; it has ${says ?? 'none'} now. Compare them, and correct or remove ours.`,
    );
  }
}

function fullPrice(facts: Facts, model: ModelFacts, base: PackagePrice): DatedPrice {
  const { from, price_tiers, tool_prices, ...rates } = base;
  const price: ContextRates = {
    ...withAdded(facts, model, rates as Rates),
    price_tiers: price_tiers.map(({ above_input_tokens, ...ofTier }): Tier => {
      return { above_input_tokens, ...withAdded(facts, model, ofTier as Rates) };
    }),
  };
  const conditions = {
    serviceTiers: { ...facts.service_tiers, ...model.service_tiers },
    speeds: model.speeds,
    geographies: model.geographies,
  };
  return {
    from,
    ...price,
    variants: isFree(price) ? [] : variantsOf(price, conditions),
    tool_prices: dearestTools([facts.tool_prices?.prices, tool_prices, model.tool_prices]),
  };
}

function withAdded(facts: Facts, model: ModelFacts, rates: Rates): Rates {
  const all: Record<string, string | undefined> = { ...rates };
  for (const [name, added] of Object.entries(model.adds ?? {})) {
    if (all[name] !== undefined)
      throw new Error(`${facts.provider}/${model.name} adds ${name}, which it has.`);
    if ('price' in added) all[name] = added.price;
    // A class that the vendor does not price costs the input.
    else all[name] = times(rates[added.of] ?? rates.input_price, added.times ?? '1');
  }
  if (facts.image_input_costs_input) all.input_image_price ??= rates.input_price;
  return ordered(all);
}

function isFree({ input_price, output_price }: Rates): boolean {
  return Number(input_price) + Number(output_price) === 0;
}

/** Where sources differ the dearest holds. */
function dearestTools(
  sources: readonly (Readonly<Record<string, string>> | undefined)[],
): Record<string, string> {
  const all: Record<string, string> = {};
  for (const [tool, price] of sources.flatMap((prices) => Object.entries(prices ?? {})))
    all[tool] = dearest(all[tool], price);
  return Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Without prices that only repeat the one before, as of a date on which something that we don't count changed. */
function withoutRepetition(prices: readonly DatedPrice[]): DatedPrice[] {
  const text = (price: DatedPrice) => JSON.stringify({ ...price, from: null });
  return prices.filter((price, index) => {
    const before = prices[index - 1];
    return !before || text(before) !== text(price);
  });
}
