import { dearer, type NanoUsd, type TokenClass } from '@weighbridge/domain';
import {
  amount,
  checkedTiers,
  dearerOf,
  type Fields,
  fieldsOf,
  type ListedConditions,
  type ListedPrice,
  type ListedRates,
  type ListedTier,
  stated,
  wholeTiers,
} from './listedPrice.ts';

type Rates = Partial<Record<TokenClass, NanoUsd>>;
type Variant = ListedConditions['variants'][number];

const CLASSES: Readonly<Record<string, TokenClass>> = {
  input_cost_per_token: 'input',
  output_cost_per_token: 'output',
  // Reasoning is output: the dearer of the two holds.
  output_cost_per_reasoning_token: 'output',
  cache_read_input_token_cost: 'cacheRead',
  cache_creation_input_token_cost: 'cacheWrite',
  cache_creation_input_token_cost_above_1hr: 'cacheWrite1h',
  input_cost_per_audio_token: 'inputAudio',
  output_cost_per_audio_token: 'outputAudio',
  cache_read_input_audio_token_cost: 'cacheReadAudio',
  input_cost_per_image_token: 'inputImage',
  output_cost_per_image_token: 'outputImage',
};

/** The tiers of service that LiteLLM has prices for, each with the names that vendors give it in responses. */
const SERVICE_TIERS: Readonly<Record<string, readonly string[]>> = {
  // OpenAI renamed it; newer models respond with the new name.
  priority: ['priority', 'fast'],
  flex: ['flex'],
  ultrafast: ['ultrafast'],
};

/** Prices per use, to the tools of ours. */
const TOOLS: Readonly<Record<string, string>> = {
  search_context_cost_per_query: 'web_search',
  google_maps_grounding_cost_per_query: 'google_maps',
  code_interpreter_cost_per_session: 'code_interpreter',
  file_search_cost_per_1k_calls: 'file_search',
};

/** A class of tokens, the length of the input from which the price holds, and the tier of service. */
const PRICE_NAME = new RegExp(
  `^(${Object.keys(CLASSES).join('|')})(?:_above_(\\d{1,6})k_tokens)?(?:_(${Object.keys(SERVICE_TIERS).join('|')}))?$`,
);

/** Whether a setting of LiteLLM's is a price that is read here. */
export function isLiteLlmPrice(name: string): boolean {
  return PRICE_NAME.test(name) || Object.hasOwn(TOOLS, name);
}

/** The prices per million tokens of an entry; undefined if it has none. Throws a `ListEntryError`. */
export function litellmPrice(model: Fields): ListedPrice | undefined {
  if (model.input_cost_per_token === undefined || model.input_cost_per_token === null) return undefined;
  const { rates, tiers } = pricesOf(model, undefined);
  // A vendor bills no output of embeddings.
  return model.mode === 'embedding'
    ? { rates: { ...rates, output: rates.output ?? 0n }, tiers }
    : { rates, tiers };
}

/** The prices of an entry under other conditions of service, and of tools. Throws a `ListEntryError`. */
export function litellmConditions(model: Fields): ListedConditions {
  const list = pricesOf(model, undefined);
  const whole = { rates: list.rates, tiers: wholeTiers(list) };
  return {
    variants: [...serviceTiers(model, whole), ...multiples(model, whole)],
    toolPrices: toolPrices(model),
  };
}

function pricesOf(model: Fields, serviceTier: string | undefined): ListedPrice {
  const rates: Rates = {};
  const byLength = new Map<number, Rates>();
  for (const [key, value] of Object.entries(model)) {
    const [, ofClass, thousands, ofService] = PRICE_NAME.exec(key) ?? [];
    const name = ofClass === undefined ? undefined : CLASSES[ofClass];
    if (!name || ofService !== serviceTier) continue;
    let into = rates;
    if (thousands !== undefined) {
      const above = Number(thousands) * 1_000;
      into = byLength.get(above) ?? {};
      byLength.set(above, into);
    }
    const price = dearerOf(into[name], amount(value, 6));
    if (price !== undefined) into[name] = price;
  }
  const tiers = [...byLength].map(([aboveInputTokens, ofTier]) => ({ aboveInputTokens, rates: ofTier }));
  return { rates, tiers: checkedTiers(tiers) };
}

function serviceTiers(model: Fields, list: ListedPrice): Variant[] {
  return Object.entries(SERVICE_TIERS).flatMap(([theirs, ours]) => {
    const own = pricesOf(model, theirs);
    if (own.rates.input === undefined || own.rates.output === undefined) return [];
    // What a tier of service omits costs what it costs otherwise; a long input never costs less than the list says.
    const rates = { ...list.rates, ...own.rates };
    const ownTiers = new Map(
      wholeTiers({ rates, tiers: own.tiers }).map((tier) => [tier.aboveInputTokens, tier]),
    );
    const tiers = list.tiers.map((tier) => ownTiers.get(tier.aboveInputTokens) ?? dearerTier(tier, rates));
    const names = model.litellm_provider === 'openai' ? ours : ours.slice(0, 1);
    return names.map((serviceTier) => ({ serviceTier, rates, tiers }));
  });
}

function dearerTier({ aboveInputTokens, rates }: ListedTier, others: ListedRates): ListedTier {
  const names = Object.keys({ ...rates, ...others }) as (keyof ListedRates)[];
  return {
    aboveInputTokens,
    rates: stated(Object.fromEntries(names.map((name) => [name, dearerOf(rates[name], others[name])]))),
  };
}

/** Anthropic's fast mode and inference in the US, as multiples of the list price. */
function multiples(model: Fields, { rates, tiers }: ListedPrice): Variant[] {
  const { fast, us } = fieldsOf(model.provider_specific_entry) ?? {};
  const known = [
    { speed: 'fast', factors: [fast] },
    { geography: 'us', factors: [us] },
    { speed: 'fast', geography: 'us', factors: [fast, us] },
  ];
  return known.flatMap(({ factors, ...conditions }) => {
    if (!factors.every((factor) => typeof factor === 'number' && factor > 0)) return [];
    const inNanos = factors.map((factor) => amount(factor, 0) ?? NANOS);
    const scaled = (of: ListedRates) =>
      Object.fromEntries(Object.entries(of).map(([name, price]) => [name, times(price, inNanos)]));
    return [
      {
        ...conditions,
        rates: scaled(rates),
        tiers: tiers.map((tier) => ({
          aboveInputTokens: tier.aboveInputTokens,
          rates: scaled(tier.rates),
        })),
      },
    ];
  });
}

const NANOS = 1_000_000_000n;

/** Rounded up to a nano-USD: a price never becomes lower than the vendor's. */
function times(price: NanoUsd, factors: readonly bigint[]): NanoUsd {
  const product = factors.reduce((all, factor) => all * factor, price);
  const divisor = NANOS ** BigInt(factors.length);
  return (product + divisor - 1n) / divisor;
}

function toolPrices(model: Fields): Record<string, NanoUsd> {
  const prices: Record<string, NanoUsd> = {};
  for (const [theirs, tool] of Object.entries(TOOLS)) {
    const given = model[theirs];
    // Searches cost by the size of their context: the dearest, since a response does not tell it.
    const all = typeof given === 'object' && given !== null ? Object.values(given) : [given];
    for (const dollars of all) {
      const price = amount(dollars, theirs.endsWith('_per_1k_calls') ? -3 : 0);
      if (price !== undefined) prices[tool] = dearer(price, prices[tool] ?? 0n);
    }
  }
  return prices;
}
