import fc from 'fast-check';
import type { ContextPrices, Price, Rates } from '../src/modelPrice.ts';
import { byClass, MEDIA_CLASSES } from '../src/tokenClasses.ts';

const amount = fc.bigInt({ min: 0n, max: 2n ** 63n - 1n });
const media: ReadonlySet<string> = new Set(MEDIA_CLASSES);
const rates = fc.record(
  byClass((one) => (media.has(one) ? fc.option(amount, { nil: undefined }) : amount)),
) as fc.Arbitrary<Rates<bigint>>;
const length = fc.integer({ min: 1, max: 2 ** 32 - 1 });
const tiers = fc
  .uniqueArray(fc.tuple(rates, length), { maxLength: 3, selector: ([, above]) => above })
  .map((all) => all.map(([ofTier, aboveInputTokens]) => ({ ...ofTier, aboveInputTokens })))
  .map((all) => all.sort((one, other) => one.aboveInputTokens - other.aboveInputTokens));
const contextPrices: fc.Arbitrary<ContextPrices> = fc
  .tuple(rates, tiers)
  .map(([list, all]) => ({ ...list, tiers: all }));
const condition = fc.stringMatching(/^(x[a-z0-9_.:-]{0,31})?$/);
const service = fc
  .record({ serviceTier: condition, speed: condition, geography: condition })
  .filter((all) => Object.values(all).some((one) => one !== ''));

/** Any price that the rules of the API allow, of every class of tokens. */
export const anyPrice: fc.Arbitrary<Price> = fc
  .tuple(
    contextPrices,
    fc.uniqueArray(fc.tuple(contextPrices, service), {
      maxLength: 3,
      selector: ([, conditions]) => JSON.stringify(Object.values(conditions)),
    }),
    fc.dictionary(fc.stringMatching(/^[a-z0-9_]{1,48}$/), amount, { maxKeys: 4 }),
  )
  .map(([list, variants, toolPrices]) => ({
    ...list,
    variants: variants.map(([ofVariant, conditions]) => ({ ...ofVariant, service: conditions })),
    toolPrices: { ...toolPrices },
  }));
