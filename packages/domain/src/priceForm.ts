import { type ContextPrices, completeRates, type Price, type TokenPrices } from './modelPrice.ts';
import { type Money, moneyFromNano, type NanoUsd, nanoFromMoney } from './money.ts';
import { byClass, PRICE_FIELDS, TOKEN_CLASSES, type TokenClass } from './tokenClasses.ts';

/** How a price is written as JSON: in the API, in the catalog's files, in the database. They differ in this alone. */
export interface PriceForm<Amount> {
  /** What the price of each class is called, such as `cache_read_price`. */
  readonly members: Readonly<Record<TokenClass, string>>;
  /** All members that a price, a variant or a tier may have; undefined: others are ignored. */
  readonly only?: ReadonlySet<string>;
  readonly nano: (amount: Amount) => NanoUsd;
  readonly amount: (nano: NanoUsd) => Amount;
  /**
   * Whether an unknown price is null, and so is a condition that the list price covers; an absent price then is that of another
   * class (`completeRates`). Else an unknown price is absent, and the condition is empty.
   */
  readonly hasNulls: boolean;
}

/** The API and the files of `apply`. */
export const API_PRICE: PriceForm<Money> = {
  members: PRICE_FIELDS,
  nano: nanoFromMoney,
  amount: moneyFromNano,
  hasNulls: true,
};

interface ContextJson {
  readonly tiers?: readonly { readonly above_input_tokens: number }[] | undefined;
}
interface VariantJson extends ContextJson {
  readonly service_tier?: string | null | undefined;
  readonly speed?: string | null | undefined;
  readonly geography?: string | null | undefined;
}
/** A price as JSON. It has, as each variant and tier, the members of its form besides. */
export interface PriceJson<Amount> extends ContextJson {
  readonly variants?: readonly VariantJson[] | undefined;
  /** By the tool's name. */
  readonly tool_prices?: Readonly<Record<string, Amount>> | undefined;
}

/** Reads a price with its input and output. Throws for what is no price of this form; further rules are the caller's. */
export function readPrice<Amount>(form: PriceForm<Amount>, json: PriceJson<Amount>): Price {
  const { variants = [], tool_prices = {} } = json;
  return {
    ...readContext(form, json),
    variants: variants.map((variant) => ({
      service: {
        serviceTier: readCondition(variant.service_tier),
        speed: readCondition(variant.speed),
        geography: readCondition(variant.geography),
      },
      ...readContext(form, variant),
    })),
    toolPrices: mapValues(tool_prices, form.nano),
  };
}

/** The inverse of `readPrice`. */
export function writePrice<Amount>(form: PriceForm<Amount>, price: Price) {
  const { variants, toolPrices, ...list } = price;
  const listed = form.hasNulls ? null : '';
  return {
    ...writeContext(form, list),
    variants: variants.map(({ service: { serviceTier, speed, geography }, ...variant }) => ({
      service_tier: serviceTier || listed,
      speed: speed || listed,
      geography: geography || listed,
      ...writeContext(form, variant),
    })),
    tool_prices: mapValues(toolPrices, form.amount),
  };
}

function readContext<Amount>(form: PriceForm<Amount>, json: ContextJson): ContextPrices {
  const { tiers = [] } = json;
  return {
    ...readRates(form, json),
    tiers: tiers.map((tier) => ({
      aboveInputTokens: readLength(tier.above_input_tokens),
      ...readRates(form, tier),
    })),
  };
}

function writeContext<Amount>(form: PriceForm<Amount>, { tiers, ...rates }: ContextPrices) {
  return {
    ...writeRates(form, rates),
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({
      above_input_tokens: aboveInputTokens,
      ...writeRates(form, tier),
    })),
  };
}

function readCondition(name: string | null = ''): string {
  if (typeof name === 'string' || name === null) return name ?? '';
  throw new Error('a condition of service is a text');
}

/** Proxies get it as an unsigned integer of 32 bits. */
function readLength(tokens: number): number {
  if (Number.isInteger(tokens) && tokens >= 0 && tokens < 2 ** 32) return tokens;
  throw new Error('a number of input tokens is an integer of 32 bits');
}

function readRates<Amount>(form: PriceForm<Amount>, json: object): TokenPrices {
  const { members, only, nano, hasNulls } = form;
  const rates = json as Readonly<Record<string, Amount | null | undefined>>;
  if (only) {
    for (const name in json) if (!only.has(name)) throw new Error(`a price has no ${name}`);
  }
  const stated = byClass((one) => {
    const amount = rates[members[one]];
    if (amount === undefined) return hasNulls ? undefined : null;
    return amount === null ? null : nano(amount);
  });
  if (stated.input == null || stated.output == null) throw new Error('a price has an input and an output');
  return completeRates(stated as Record<'input' | 'output', NanoUsd>);
}

function writeRates<Amount>(form: PriceForm<Amount>, rates: TokenPrices): Record<string, Amount | null> {
  const json: Record<string, Amount | null> = {};
  for (const one of TOKEN_CLASSES) {
    const rate = rates[one];
    if (rate !== undefined) json[form.members[one]] = form.amount(rate);
    else if (form.hasNulls) json[form.members[one]] = null;
  }
  return json;
}

function mapValues<From, To>(
  from: Readonly<Record<string, From>>,
  to: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(from).map(([name, value]) => [name, to(value)]));
}
