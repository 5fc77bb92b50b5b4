import {
  type ImportedPrice,
  type ImportedRates,
  money,
  multiply,
  withoutUndefined,
} from './importedModel.ts';

type Entry = Readonly<Record<string, unknown>>;
type Rates = Partial<ImportedRates>;
type Tier = ImportedPrice['tiers'][number];
type Variant = NonNullable<ImportedPrice['variants']>[number];

const PER_TOKEN_TO_PER_MILLION = 6;

/** LiteLLM's names of prices per token, to ours. */
const CLASSES = {
  input_price: 'input_cost_per_token',
  output_price: 'output_cost_per_token',
  cache_read_price: 'cache_read_input_token_cost',
  cache_write_price: 'cache_creation_input_token_cost',
  cache_write_1h_price: 'cache_creation_input_token_cost_above_1hr',
  input_audio_price: 'input_cost_per_audio_token',
  input_image_price: 'input_cost_per_image_token',
  cache_read_audio_price: 'cache_read_input_audio_token_cost',
  output_audio_price: 'output_cost_per_audio_token',
  output_image_price: 'output_cost_per_image_token',
} as const satisfies Record<keyof ImportedRates, string>;

/** The tiers of service that LiteLLM has prices for, each with the names that vendors give it in responses. */
const SERVICE_TIERS: Readonly<Record<string, readonly string[]>> = {
  // OpenAI renamed it; newer models respond with the new name.
  priority: ['priority', 'fast'],
  flex: ['flex'],
  ultrafast: ['ultrafast'],
};

/** The price of an entry, except what it lacks; its input and output may be absent. */
export function readPrice(entry: Entry): Rates & Omit<ImportedPrice, keyof ImportedRates> {
  const base = rates(entry, '');
  const tiers = readTiers(entry, '', base);
  const variants = [...serviceTiers(entry, base, tiers), ...multiples(entry, base, tiers)];
  const tool_prices = toolPrices(entry);
  return {
    ...base,
    tiers,
    ...(variants.length > 0 && { variants }),
    ...(Object.keys(tool_prices).length > 0 && { tool_prices }),
  };
}

/** Whether a setting of LiteLLM's is a price that `readPrice` reads. */
export function isPriceName(name: string): boolean {
  const ending = `(_above_\\d+k_tokens)?(_(${Object.keys(SERVICE_TIERS).join('|')}))?$`;
  return (
    Object.values(CLASSES).some((theirs) => new RegExp(`^${theirs}${ending}`).test(name)) ||
    Object.hasOwn(TOOLS, name)
  );
}

/** The prices whose names have this ending; the ending of a tier's prices names its threshold. */
function rates(entry: Entry, ending: string): Rates {
  const prices = Object.entries(CLASSES).map(([name, theirs]) => [
    name,
    money(entry[`${theirs}${ending}`], PER_TOKEN_TO_PER_MILLION),
  ]);
  return withoutUndefined(Object.fromEntries(prices));
}

function readTiers(entry: Entry, ending: string, base: Rates): Tier[] {
  const pattern = new RegExp(`_above_(\\d+)k_tokens${ending}$`);
  const thresholds = Object.keys(entry).flatMap((name) => pattern.exec(name)?.[1] ?? []);
  return [...new Set(thresholds)]
    .map(Number)
    .sort((one, other) => one - other)
    .map((thousands) => ({
      above_input_tokens: thousands * 1_000,
      // A token class that the tier omits has the same price as below the tier.
      ...(base as ImportedRates),
      ...rates(entry, `_above_${thousands}k_tokens${ending}`),
    }));
}

function serviceTiers(entry: Entry, base: Rates, listTiers: readonly Tier[]): Variant[] {
  return Object.entries(SERVICE_TIERS).flatMap(([theirs, ours]) => {
    const own = rates(entry, `_${theirs}`);
    if (!own.input_price || !own.output_price) return [];
    // What a tier of service omits costs what it costs otherwise; a long input never costs less than the list says.
    const prices = { ...base, ...own } as ImportedRates;
    const ownTiers = new Map(
      readTiers(entry, `_${theirs}`, prices).map((tier) => [tier.above_input_tokens, tier]),
    );
    const tiers = listTiers.map((tier) => ownTiers.get(tier.above_input_tokens) ?? dearer(tier, prices));
    const names = entry.litellm_provider === 'openai' ? ours : ours.slice(0, 1);
    return names.map((service_tier) => ({ service_tier, ...prices, ...(tiers.length > 0 && { tiers }) }));
  });
}

function dearer(tier: Tier, prices: ImportedRates): Tier {
  const isDearer = (a: ImportedRates['input_price'], b: ImportedRates['input_price']) =>
    a.units === b.units ? a.nanos > b.nanos : a.units > b.units;
  const raised = Object.entries(prices).filter(([name, price]) => {
    const ofTier = tier[name as keyof ImportedRates];
    return !ofTier || isDearer(price, ofTier);
  });
  return { ...tier, ...Object.fromEntries(raised) };
}

/** Anthropic's fast mode and inference in the US, as multiples of the list price. */
function multiples(entry: Entry, base: Rates, tiers: readonly Tier[]): Variant[] {
  const { fast, us } = (entry.provider_specific_entry ?? {}) as Entry;
  const known = [
    { speed: 'fast', factors: [fast] },
    { geography: 'us', factors: [us] },
    { speed: 'fast', geography: 'us', factors: [fast, us] },
  ];
  return known.flatMap(({ factors, ...conditions }) => {
    if (!factors.every((factor) => typeof factor === 'number' && factor > 0)) return [];
    const scaled = <R extends Rates>(prices: R) =>
      Object.fromEntries(
        Object.entries(prices).map(([name, price]) => [
          name,
          name.endsWith('_price')
            ? multiply(price as ImportedRates['input_price'], factors as number[])
            : price,
        ]),
      ) as R;
    return [
      {
        ...conditions,
        ...(scaled(base) as ImportedRates),
        ...(tiers.length > 0 && { tiers: tiers.map(scaled) }),
      },
    ];
  });
}

/** LiteLLM's names of prices per use, to the tools of ours. */
const TOOLS: Readonly<Record<string, string>> = {
  search_context_cost_per_query: 'web_search',
  google_maps_grounding_cost_per_query: 'google_maps',
  code_interpreter_cost_per_session: 'code_interpreter',
  file_search_cost_per_1k_calls: 'file_search',
};

function toolPrices(entry: Entry): Record<string, ImportedRates['input_price']> {
  const prices = Object.entries(TOOLS).map(([theirs, ours]) => {
    const given = entry[theirs];
    // Searches cost by the size of their context: the dearest, since a response does not tell it.
    const dollars =
      typeof given === 'object' && given !== null ? Math.max(...Object.values(given).map(Number)) : given;
    return [ours, money(dollars, theirs.endsWith('_per_1k_calls') ? -3 : 0)];
  });
  return withoutUndefined(Object.fromEntries(prices));
}
