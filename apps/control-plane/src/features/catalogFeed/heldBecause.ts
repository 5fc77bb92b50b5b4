import { PRICE_FIELDS, type Price, ratesFor, TOKEN_CLASSES } from '@weighbridge/domain';

/** Of a price, what a fall may leave at least. */
const LEAST_PERCENT = 10n;
const MOST_TIMES = 10n;

/**
 * Why a change of a price has to wait for a person: it falls by more than 90 %, rises to more than 10 times, or prices below text
 * what had no price. Undefined: it may be applied.
 */
export function heldBecause(before: Price, after: Price): string | undefined {
  const lengths = [0, ...[...before.tiers, ...after.tiers].map((tier) => tier.aboveInputTokens + 1)];
  for (const inputTokens of lengths) {
    const [old, rates] = [ratesFor(inputTokens, before), ratesFor(inputTokens, after)];
    for (const name of TOKEN_CLASSES) {
      const [was, is] = [old[name], rates[name]];
      if (is === undefined) continue;
      const field = PRICE_FIELDS[name];
      if (was === undefined) {
        const text = name.startsWith('output') ? rates.output : rates.input;
        if (is < text) return `${field} had no price, and is now below that of text`;
        continue;
      }
      if (is * 100n < was * LEAST_PERCENT) return `${field} falls by more than 90 %`;
      if (is > was * MOST_TIMES) return `${field} rises to more than 10 times`;
    }
  }
  return undefined;
}
