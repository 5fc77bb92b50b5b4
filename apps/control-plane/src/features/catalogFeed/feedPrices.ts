import type { MediaClass, NanoUsd, TextClass } from '@weighbridge/domain';

export type FeedFormat = 'genai-prices' | 'models.dev' | 'litellm';

/** The prices per one million tokens that a feed states. It need not state all. */
export type FeedRates = Readonly<Partial<Record<TextClass | MediaClass, NanoUsd>>>;

export interface FeedTier {
  readonly aboveInputTokens: number;
  readonly rates: FeedRates;
}

/** What a feed says of one model. */
export interface FeedPrice {
  readonly rates: FeedRates;
  /** Ascending. Empty: the feed states no price by length, which does not mean that there is none. */
  readonly tiers: readonly FeedTier[];
}

/** What a feed says of a model besides its price. */
export interface FeedModel {
  readonly contextWindow: number;
  readonly maxOutputTokens: number | null;
  readonly capabilities: readonly string[];
  /** Its dated releases, and the latest. */
  readonly otherNames: readonly string[];
}

/** An entry of a feed, before its prices are read. */
export interface FeedEntry {
  /** `<provider>/<name>`, as the catalog names models. */
  readonly id: string;
  /** Throws a `FeedEntryError` if the prices can't be used; undefined if it has none per token. */
  readonly read: () => FeedPrice | undefined;
  /** What the catalog needs of a model that it lacks; undefined if the feed does not state it, or the model is none for new requests. */
  readonly describe: () => FeedModel | undefined;
}

/** The entries of a feed in one of its formats. */
export interface FeedDocument {
  readonly format: FeedFormat;
  readonly entries: Iterable<FeedEntry>;
}

/** An entry that can't be used; the message is the reason. */
export class FeedEntryError extends Error {
  override readonly name = 'FeedEntryError';
}

export type Fields = Readonly<Record<string, unknown>>;

/** The rule of the catalog that ships: no vendor charges as much. */
const MAX_USD_PER_MILLION = 10_000;
/** Floats of dollars per token have about 15 digits that mean something. */
const DIGITS = 12;
const NANO_DIGITS = 9;
const MAX_TIERS = 20;
/** Proxies receive it as an unsigned 32-bit integer. */
const MAX_TOKENS = 4_294_967_295;
/** What the catalog stores as the size of a model. */
const MAX_COUNT = 2_147_483_647;

/**
 * Nano-USD per one million tokens of a JSON number: dollars per million (`shift` 0) or per token (`shift` 6). Rounded up, so that
 * a price is never below what the feed states.
 */
export function amount(value: unknown, shift: 0 | 6): NanoUsd | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'number' || !Number.isFinite(value))
    throw new FeedEntryError('a price is not a number');
  if (value < 0) throw new FeedEntryError('a price is negative');
  if (value * 10 ** shift > MAX_USD_PER_MILLION)
    throw new FeedEntryError(`a price is above ${MAX_USD_PER_MILLION} USD per million tokens`);
  const [digits = '0', exponent = '0'] = value.toExponential(DIGITS - 1).split('e');
  const places = Number(exponent) - (DIGITS - 1) + shift + NANO_DIGITS;
  const whole = BigInt(digits.replace('.', ''));
  if (places >= 0) return whole * 10n ** BigInt(places);
  const divisor = 10n ** BigInt(-places);
  return (whole + divisor - 1n) / divisor;
}

/** Checks the tiers of an entry, and sorts them. */
export function feedTiers(tiers: readonly FeedTier[]): FeedTier[] {
  if (tiers.length > MAX_TIERS) throw new FeedEntryError(`it has more than ${MAX_TIERS} prices by length`);
  const sorted = tiers.toSorted((a, b) => a.aboveInputTokens - b.aboveInputTokens);
  for (const [index, { aboveInputTokens }] of sorted.entries()) {
    const isTokens =
      Number.isInteger(aboveInputTokens) && aboveInputTokens >= 1 && aboveInputTokens <= MAX_TOKENS;
    if (!isTokens) throw new FeedEntryError('a length is not a number of tokens');
    if (aboveInputTokens === sorted[index - 1]?.aboveInputTokens)
      throw new FeedEntryError('it has two prices for one length');
  }
  return sorted;
}

/** Drops the classes that are not stated. */
export function stated(rates: { readonly [name in keyof FeedRates]: NanoUsd | undefined }): FeedRates {
  return Object.fromEntries(Object.entries(rates).filter(([, value]) => value !== undefined));
}

/** The dearer of two prices that the feed states for one class. */
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
