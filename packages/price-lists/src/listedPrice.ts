import type { NanoUsd, TokenClass } from '@weighbridge/domain';

/** The prices per one million tokens that a list states. It need not state all. */
export type ListedRates = Readonly<Partial<Record<TokenClass, NanoUsd>>>;

export interface ListedTier {
  readonly aboveInputTokens: number;
  readonly rates: ListedRates;
}

/** What a list says of the prices of one model. */
export interface ListedPrice {
  readonly rates: ListedRates;
  /** Ascending. Empty: the list states no price by length, which does not mean that there is none. */
  readonly tiers: readonly ListedTier[];
}

/** What a list says of prices besides those of tokens under the usual conditions. */
export interface ListedConditions {
  /** An absent condition is the one that the list price covers. */
  readonly variants: readonly (ListedPrice & {
    readonly serviceTier?: string;
    readonly speed?: string;
    readonly geography?: string;
  })[];
  /** Per use, by tool. */
  readonly toolPrices: Readonly<Record<string, NanoUsd>>;
}

/** What a list says of a model besides its prices. */
export interface ListedModel {
  readonly contextWindow: number;
  readonly maxOutputTokens: number | null;
  readonly capabilities: readonly string[];
  /** Its dated releases, and the latest. */
  readonly otherNames: readonly string[];
  /** The day on which its vendor ends it, such as `2027-05-01`. */
  readonly endsOn: string | undefined;
  /** False if its vendor deprecates it, or if it writes no text. */
  readonly isForNewRequests: boolean;
  /** What else is billed: each request; or tokens of reasoning, at another price than output, of which the dearer is read. */
  readonly alsoPriced: readonly ('request' | 'reasoning')[];
}

/** An entry of a list, before it is read. */
export interface ListEntry {
  /** Its name in the list. */
  readonly key: string;
  /** `<provider>/<name>`, as the catalog names models. */
  readonly id: string;
  /** Throws a `ListEntryError` if the prices can't be used; undefined if it has none per token. */
  readonly read: () => ListedPrice | undefined;
  /** Absent: lists in this format have no such prices. Throws a `ListEntryError` like `read`. */
  readonly readConditions?: () => ListedConditions;
  /** What the catalog needs of a model that it lacks; undefined if the list does not state it. */
  readonly describe: () => ListedModel | undefined;
}

/** An entry that can't be used; the message is the reason. */
export class ListEntryError extends Error {
  override readonly name = 'ListEntryError';
}

export type Fields = Readonly<Record<string, unknown>>;

/** The rule of the catalog that ships: no vendor charges as much. */
const MAX_USD = 10_000;
/** Floats of dollars per token have about 15 digits that mean something. */
const DIGITS = 12;
const NANO_DIGITS = 9;
const MAX_TIERS = 20;
/** Proxies receive it as an unsigned 32-bit integer. */
const MAX_TOKENS = 4_294_967_295;
/** What the catalog stores as the size of a model. */
const MAX_COUNT = 2_147_483_647;

/**
 * The nano-USD of a JSON number of dollars, times ten to the power of `shift`: 6 makes a price per million tokens of one per token.
 * Throws if the amount is finer than a nano-USD: rounded down, it would be below what the list states.
 */
export function amount(value: unknown, shift: -3 | 0 | 6): NanoUsd | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw new ListEntryError('a price is not a number');
  if (value < 0) throw new ListEntryError('a price is negative');
  if (value * 10 ** shift > MAX_USD) throw new ListEntryError(`a price is too large: above ${MAX_USD} USD`);
  const [digits = '0', exponent = '0'] = value.toExponential(DIGITS - 1).split('e');
  const places = Number(exponent) - (DIGITS - 1) + shift + NANO_DIGITS;
  const whole = BigInt(digits.replace('.', ''));
  if (places >= 0) return whole * 10n ** BigInt(places);
  const divisor = 10n ** BigInt(-places);
  if (whole % divisor !== 0n)
    throw new ListEntryError('a price is too fine: a nano-USD is the least that can be stored');
  return whole / divisor;
}

/** Checks the tiers of an entry, and sorts them. */
export function checkedTiers(tiers: readonly ListedTier[]): ListedTier[] {
  if (tiers.length > MAX_TIERS) throw new ListEntryError(`it has more than ${MAX_TIERS} prices by length`);
  const sorted = tiers.toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens);
  for (const [index, { aboveInputTokens }] of sorted.entries()) {
    const isTokens =
      Number.isInteger(aboveInputTokens) && aboveInputTokens >= 1 && aboveInputTokens <= MAX_TOKENS;
    if (!isTokens) throw new ListEntryError('a length is not a number of tokens');
    if (aboveInputTokens === sorted[index - 1]?.aboveInputTokens)
      throw new ListEntryError('it has two prices for one length');
  }
  return sorted;
}

/** The tiers with every class that the list states: what a tier omits costs what it costs below the tier. */
export function wholeTiers({ rates, tiers }: ListedPrice): ListedTier[] {
  return tiers.map((tier) => ({
    aboveInputTokens: tier.aboveInputTokens,
    rates: { ...rates, ...tier.rates },
  }));
}

/** Drops the classes that are not stated. */
export function stated(rates: { readonly [name in keyof ListedRates]: NanoUsd | undefined }): ListedRates {
  return Object.fromEntries(Object.entries(rates).filter(([, value]) => value !== undefined));
}

/** The dearer of two prices that a list states for one class. */
export function dearerOf(a: NanoUsd | undefined, b: NanoUsd | undefined): NanoUsd | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a > b ? a : b;
}

/** The capabilities of a model. */
export function abilities(named: readonly (string | undefined)[], embeds: boolean): string[] {
  const all = [...named, embeds ? 'embeddings' : undefined].filter((name) => name !== undefined);
  return [...new Set(all)];
}

/** A number of tokens that a model can have. */
export function tokenCount(value: unknown): number | undefined {
  const isCount = Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_COUNT;
  return isCount ? (value as number) : undefined;
}

export function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
