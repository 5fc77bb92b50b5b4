import { dearestPrices } from './dearestPrices.ts';
import type { MeteredUsage } from './meteredUsage.ts';
import { type ModelPrice, ratesFor } from './modelPrice.ts';
import { divideHalfUp, type NanoUsd } from './money.ts';
import { costOf, pricesFor } from './pricing.ts';
import { priceInRegion } from './regionalPrice.ts';
import { TOKEN_CLASSES, type TokenClass } from './tokenClasses.ts';
import { totalInputTokens } from './tokenUsage.ts';

/** What a request cost by one token class, or by one tool of the vendor. */
export interface ClassCost {
  readonly of: TokenClass | { readonly tool: string };
  /** Tokens, or uses of the tool. */
  readonly quantity: number;
  /** For a million tokens, or for one use. */
  readonly price: NanoUsd;
  /** Rounded for this class alone; the whole cost is rounded once. */
  readonly costNanoUsd: NanoUsd;
}

const TOKENS_PER_PRICE = 1_000_000n;
/** Usage that would be charged by these is not split. */
const DEAREST = dearestPrices([]);

/**
 * Splits a recorded cost by the price that it was charged at. Undefined if the price does not explain the cost in any region: it
 * lacks something that was used, or gives another cost.
 */
export function costByClass(
  usage: MeteredUsage,
  price: ModelPrice,
  costNanoUsd: NanoUsd,
): readonly ClassCost[] | undefined {
  const charged = pricesOfRegions(price).find((candidate) => {
    const cost = costOf(usage, candidate, DEAREST);
    return cost.unpriced.length === 0 && cost.costNanoUsd === costNanoUsd;
  });
  return charged && partsOf(usage, charged);
}

/** The list price, and what it is in each region that has another one. The ledger does not say where an account is. */
function pricesOfRegions(price: ModelPrice): ModelPrice[] {
  const regions = new Set(price.variants.map(({ service }) => service.geography));
  regions.delete('');
  return [price, ...[...regions].map((region) => priceInRegion(price, region))];
}

function partsOf({ tokens, service, toolUses }: MeteredUsage, price: ModelPrice): ClassCost[] {
  const rates = ratesFor(totalInputTokens(tokens), pricesFor(service, price, DEAREST));
  const ofTokens = TOKEN_CLASSES.map((of): ClassCost => {
    const [quantity, rate] = [tokens[`${of}Tokens`], rates[of] ?? 0n];
    return {
      of,
      quantity,
      price: rate,
      costNanoUsd: divideHalfUp(BigInt(quantity) * rate, TOKENS_PER_PRICE),
    };
  });
  const ofTools = Object.entries(toolUses).map(([tool, quantity]): ClassCost => {
    const perUse = price.toolPrices[tool] ?? 0n;
    return { of: { tool }, quantity, price: perUse, costNanoUsd: BigInt(quantity) * perUse };
  });
  return [...ofTokens, ...ofTools].filter(({ quantity }) => quantity > 0);
}
