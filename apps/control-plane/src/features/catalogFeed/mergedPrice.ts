import {
  byClass,
  type ContextPrices,
  completeRates,
  type NanoUsd,
  OR_ELSE,
  type Price,
  type PriceTier,
  ratesFor,
  TOKEN_CLASSES,
  type TokenClass,
  type TokenPrices,
} from '@weighbridge/domain';
import type { ListedPrice, ListedRates } from '@weighbridge/price-lists';

/** Classes that may cost the input where the vendor lists no price for them. */
const MAY_COST_INPUT: ReadonlySet<TokenClass> = new Set(TOKEN_CLASSES.filter((one) => OR_ELSE[one]));

/**
 * The new price: what the feed states replaces the price in force. A class that the feed does not state never becomes cheaper: it
 * rises by the same factor as the input or output price does, and stays where that falls. Prices of tools stay.
 */
export function mergedPrice(current: Price, feed: ListedPrice): Price {
  const list = mergedList(current, feed);
  return {
    ...list,
    variants: current.variants.map(({ service, ...variant }) => ({
      service,
      ...risenVariant(variant, current, list),
    })),
    toolPrices: current.toolPrices,
  };
}

/** The price of a model that had none; undefined if the feed does not state enough. */
export function firstPrice({ rates, tiers }: ListedPrice): Price | undefined {
  if (rates.input === undefined || rates.output === undefined) return undefined;
  const list = completed(rates, rates.input, rates.output);
  return {
    ...list,
    tiers: tiers.map(({ aboveInputTokens, rates: ofTier }) => ({
      aboveInputTokens,
      ...completed({ ...rates, ...ofTier }, ofTier.input ?? list.input, ofTier.output ?? list.output),
    })),
    variants: [],
    toolPrices: {},
  };
}

/** A medium that the feed does not state is unknown. */
function completed(rates: ListedRates, input: NanoUsd, output: NanoUsd): TokenPrices {
  return completeRates({ ...byClass((one) => rates[one] ?? null), input, output });
}

function mergedList(current: ContextPrices, { rates, tiers }: ListedPrice): ContextPrices {
  const { tiers: known, ...old } = current;
  const list = mergedRates(old, rates);
  if (tiers.length === 0) {
    return { ...list, tiers: known.map((tier) => withLength(tier, risenRates(tier, old, list))) };
  }
  return {
    ...list,
    tiers: tiers.map(({ aboveInputTokens, rates: ofTier }) => {
      const merged = mergedRates(ratesFor(aboveInputTokens + 1, current), ofTier);
      // Lists differ in whether a length is the last of one price or the first of the next: the dearer holds.
      const isFirst = known.some((tier) => tier.aboveInputTokens === aboveInputTokens - 1);
      return {
        aboveInputTokens: isFirst ? aboveInputTokens - 1 : aboveInputTokens,
        ...notBelow(merged, list, ofTier),
      };
    }),
  };
}

function mergedRates(old: TokenPrices, stated: ListedRates): TokenPrices {
  const merged: Partial<Record<TokenClass, NanoUsd>> = {};
  const input = stated.input ?? old.input;
  const output = stated.output ?? old.output;
  for (const name of TOKEN_CLASSES) {
    const before = old[name];
    const after = stated[name];
    // A zero beside a price may mean that the feed does not know it.
    const isStated = after !== undefined && (after > 0n || name === 'input' || name === 'output' || !before);
    if (isStated) merged[name] = after;
    else if (before === undefined) continue;
    else if (before === old.input && MAY_COST_INPUT.has(name)) merged[name] = input;
    else if (name === 'cacheWrite1h' && before === old.cacheWrite) merged[name] = merged.cacheWrite ?? before;
    else if (name.startsWith('output')) merged[name] = risen(before, old.output, output);
    else merged[name] = risen(before, old.input, input);
  }
  return merged as unknown as TokenPrices;
}

/** Classes that a tier of the feed leaves out cost at least what the list says. */
function notBelow(rates: TokenPrices, list: TokenPrices, stated: ListedRates): TokenPrices {
  const raised = TOKEN_CLASSES.flatMap((name) => {
    const [rate, least] = [rates[name], list[name]];
    if (rate === undefined) return [];
    return [
      [name, stated[name] === undefined && least !== undefined && least > rate ? least : rate] as const,
    ];
  });
  return Object.fromEntries(raised) as unknown as TokenPrices;
}

/** A variant is a multiple of the list price that the feed does not know: it keeps the multiple when the list price rises. */
function risenVariant(variant: ContextPrices, before: ContextPrices, after: ContextPrices): ContextPrices {
  const known = new Set(before.tiers.map(({ aboveInputTokens }) => aboveInputTokens));
  const lengths = new Set([
    ...variant.tiers.map(({ aboveInputTokens }) => aboveInputTokens),
    ...after.tiers.flatMap(({ aboveInputTokens }) => (known.has(aboveInputTokens) ? [] : aboveInputTokens)),
  ]);
  const at = (inputTokens: number) =>
    risenRates(ratesFor(inputTokens, variant), ratesFor(inputTokens, before), ratesFor(inputTokens, after));
  return {
    ...at(0),
    tiers: [...lengths]
      .sort((a, b) => a - b)
      .map((aboveInputTokens) => ({ aboveInputTokens, ...at(aboveInputTokens + 1) })),
  };
}

/** Each class rises as it does between two list prices. */
function risenRates(rates: TokenPrices, before: TokenPrices, after: TokenPrices): TokenPrices {
  const all = TOKEN_CLASSES.flatMap((name) => {
    const rate = rates[name];
    if (rate === undefined) return [];
    return [[name, risen(rate, before[name] ?? 0n, after[name] ?? 0n)] as const];
  });
  return Object.fromEntries(all) as unknown as TokenPrices;
}

/** Rounded up, and never lower than it was. */
function risen(rate: NanoUsd, before: NanoUsd, after: NanoUsd): NanoUsd {
  if (after <= before) return rate;
  if (before === 0n) return rate > after ? rate : after;
  return (rate * after + before - 1n) / before;
}

function withLength({ aboveInputTokens }: PriceTier, rates: TokenPrices): PriceTier {
  return { aboveInputTokens, ...rates };
}
