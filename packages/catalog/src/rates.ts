import { PRICE_FIELDS, type PriceField, TOKEN_CLASSES } from '@weighbridge/domain';

/** The classes of tokens that have a price, as they are named in the catalog's files. */
export const CLASSES: readonly PriceField[] = TOKEN_CLASSES.map((one) => PRICE_FIELDS[one]);
export type PriceClass = PriceField;

/** USD per one million tokens, as decimals. An absent modality has no known price; another absent class costs the input. */
export type Rates = { readonly input_price: string; readonly output_price: string } & {
  readonly [name in PriceClass]?: string;
};

export type Tier = Rates & { readonly above_input_tokens: number };

/** The prices of a model under the conditions that the list price covers. */
export type ContextRates = Rates & { readonly price_tiers: readonly Tier[] };

/** Prices under other conditions; an empty string is what the list price covers. */
export type Variant = ContextRates & {
  readonly service_tier: string;
  readonly speed: string;
  readonly geography: string;
};

/** What a model costs from a date on; null: from always. */
export type DatedPrice = ContextRates & {
  readonly from: string | null;
  readonly variants: readonly Variant[];
  /** USD per use, by tool. */
  readonly tool_prices: Readonly<Record<string, string>>;
};

/** Prices with only the classes of the list above, in its order, so that files do not depend on where they came from. */
export function ordered(rates: Readonly<Record<string, unknown>>): Rates {
  const present = CLASSES.filter((name) => typeof rates[name] === 'string');
  return Object.fromEntries(present.map((name) => [name, rates[name]])) as unknown as Rates;
}
