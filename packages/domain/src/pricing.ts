import type { DearestPrices } from './dearestPrices.ts';
import { isStandard, type MeteredUsage, type ServiceConditions, type ToolUses } from './meteredUsage.ts';
import {
  type ContextPrices,
  type ModelPrice,
  mapRates,
  multiplePermille,
  type Price,
  ratesFor,
  type TokenPrices,
  withTiers,
} from './modelPrice.ts';
import { dearer, divideHalfUp, type NanoUsd } from './money.ts';
import { CLASS_NAMES, MEDIA_CLASSES, type MediaClass, TOKEN_CLASSES } from './tokenClasses.ts';
import { hasMediaTokens, type TokenUsage, totalInputTokens } from './tokenUsage.ts';
import { toolOfSized } from './toolSizes.ts';

export interface Cost {
  readonly costNanoUsd: NanoUsd;
  /** What the price does not cover, such as `service_tier:priority`, `tool:web_search` or `output_audio`. */
  readonly unpriced: readonly string[];
}

const TOKENS_PER_PRICE = 1_000_000n;
const NOTHING_UNPRICED: readonly string[] = [];

/**
 * Sums all classes exactly, then rounds half up to a nano-USD, once. Usage without a price is charged at the dearest known
 * price of its class, never at the list price or zero.
 */
export function costOf(usage: MeteredUsage, price: ModelPrice, dearest: DearestPrices): Cost {
  const { tokens, service, toolUses } = usage;
  const unpriced: string[] = [];
  const prices = isStandard(service) ? price : pricesFor(service, price, dearest, unpriced);
  const rates = ratesFor(totalInputTokens(tokens), prices);
  const text =
    BigInt(tokens.inputTokens) * rates.input +
    BigInt(tokens.cacheReadTokens) * rates.cacheRead +
    BigInt(tokens.cacheWriteTokens) * rates.cacheWrite +
    BigInt(tokens.cacheWrite1hTokens) * rates.cacheWrite1h +
    BigInt(tokens.outputTokens) * rates.output;
  const media = hasMediaTokens(tokens) ? mediaCost(tokens, rates, dearest, unpriced) : 0n;
  const tools = toolCost(toolUses, price, dearest, unpriced);
  return {
    costNanoUsd: divideHalfUp(text + media, TOKENS_PER_PRICE) + tools,
    unpriced: unpriced.length === 0 ? NOTHING_UNPRICED : unpriced,
  };
}

/** True if everything that the price covers costs nothing. */
export function isFree(price: ModelPrice): boolean {
  return (
    [price, ...price.variants].flatMap(withTiers).every(isZero) &&
    Object.values(price.toolPrices).every((perUse) => perUse === 0n)
  );
}

function isZero(rates: TokenPrices): boolean {
  return TOKEN_CLASSES.every((one) => (rates[one] ?? 0n) === 0n);
}

/** The tiers of service that vendors sell below the list price. */
const CHEAPER_TIERS: ReadonlySet<string> = new Set(['flex', 'batch']);

/**
 * The prices under conditions of service. Without a price for just these, each condition multiplies the list price: by the
 * model's own price for it alone, else by the dearest known multiple; `unpriced` gets the names of the conditions.
 */
export function pricesFor(
  service: ServiceConditions,
  price: Price,
  dearest: DearestPrices,
  unpriced: string[] = [],
): ContextPrices {
  if (isStandard(service)) return price;
  const exact = price.variants.find((variant) => isSame(variant.service, service));
  if (exact) return exact;
  const { serviceTier, speed, geography } = service;
  let prices: ContextPrices = price;
  const conditions = [
    ['service_tier', { serviceTier, speed: '', geography: '' }, dearest.serviceTierPermille],
    ['speed', { serviceTier: '', speed, geography: '' }, dearest.speedPermille],
    ['geography', { serviceTier: '', speed: '', geography }, dearest.geographyPermille],
  ] as const;
  for (const [name, alone, dearestPermille] of conditions) {
    if (isStandard(alone)) continue;
    unpriced.push(`${name}:${alone.serviceTier}${alone.speed}${alone.geography}`);
    const known = price.variants.find((variant) => isSame(variant.service, alone));
    if (known) prices = scaled(prices, multiplePermille(known, price));
    else if (!CHEAPER_TIERS.has(alone.serviceTier)) prices = scaled(prices, dearestPermille);
  }
  return prices;
}

function isSame(a: ServiceConditions, b: ServiceConditions): boolean {
  return a.serviceTier === b.serviceTier && a.speed === b.speed && a.geography === b.geography;
}

function scaled(prices: ContextPrices, permille: bigint): ContextPrices {
  const times = (rate: NanoUsd) => (rate * permille + 999n) / 1_000n;
  const rates = <R extends TokenPrices>(of: R): R => ({ ...of, ...mapRates(of, times) });
  return { ...rates(prices), tiers: prices.tiers.map(rates) };
}

function mediaCost(
  tokens: TokenUsage,
  rates: TokenPrices,
  dearest: DearestPrices,
  unpriced: string[],
): bigint {
  let exact = 0n;
  for (const media of MEDIA_CLASSES) {
    const count = tokens[`${media}Tokens`];
    if (count === 0) continue;
    const rate = rates[media];
    if (rate === undefined) unpriced.push(CLASS_NAMES[media]);
    exact += BigInt(count) * (rate ?? unknownMediaPrice(media, rates, dearest));
  }
  return exact;
}

/** The dearest price that any model has for the class. A model whose text costs nothing has no price list: it is free. */
function unknownMediaPrice(media: MediaClass, rates: TokenPrices, dearest: DearestPrices): NanoUsd {
  const text = media.startsWith('output') ? rates.output : rates.input;
  if (text === 0n) return 0n;
  return dearer(text, dearest.media[media]);
}

function toolCost(
  toolUses: ToolUses,
  price: ModelPrice,
  dearest: DearestPrices,
  unpriced: string[],
): NanoUsd {
  let cost = 0n;
  for (const tool in toolUses) {
    const uses = BigInt(toolUses[tool] ?? 0);
    if (uses === 0n) continue;
    const perUse = Object.hasOwn(price.toolPrices, tool) ? price.toolPrices[tool] : undefined;
    if (perUse === undefined) unpriced.push(`tool:${tool}`);
    cost += uses * (perUse ?? (isFree(price) ? 0n : unknownToolPrice(tool, price, dearest)));
  }
  return cost;
}

/** A larger container costs no less than the model's usual one. */
function unknownToolPrice(
  tool: string,
  { toolPrices }: ModelPrice,
  { tools, anyTool }: DearestPrices,
): NanoUsd {
  const known = tools.get(tool) ?? anyTool;
  const base = toolOfSized(tool);
  return base !== undefined && Object.hasOwn(toolPrices, base)
    ? dearer(known, toolPrices[base] ?? 0n)
    : known;
}
