import { times } from './decimal.ts';
import type { Multiple } from './facts.ts';
import { type ContextRates, ordered, type PriceClass, type Rates, type Variant } from './rates.ts';

type Multiples = Readonly<Record<string, Multiple>> | undefined;

/** A value of one condition with its multiple; the first of each is what the list price covers. */
type Choice = readonly [value: string, multiple: Multiple];
const STANDARD: Choice = ['', { times: '1' }];

/** The prices under every combination of conditions but the standard one: multiples of conditions multiply. */
export function variantsOf(
  price: ContextRates,
  {
    serviceTiers,
    speeds,
    geographies,
  }: { serviceTiers: Multiples; speeds: Multiples; geographies: Multiples },
): Variant[] {
  const choices = (multiples: Multiples): Choice[] => [STANDARD, ...Object.entries(multiples ?? {})];
  const combinations = choices(serviceTiers).flatMap((tier) =>
    choices(speeds).flatMap((speed) =>
      choices(geographies).map((geography) => [tier, speed, geography] as const),
    ),
  );
  return combinations.slice(1).map(([tier, speed, geography]) => {
    const multiples = [tier[1], speed[1], geography[1]];
    const { price_tiers, ...rates } = price;
    return {
      service_tier: tier[0],
      speed: speed[0],
      geography: geography[0],
      ...multiplied(rates as Rates, multiples),
      price_tiers: price_tiers.map(({ above_input_tokens, ...ofTier }) => ({
        above_input_tokens,
        ...multiplied(ofTier as Rates, multiples),
      })),
    };
  });
}

function multiplied(rates: Rates, multiples: readonly Multiple[]): Rates {
  const one = (name: string, price: string) =>
    multiples.reduce(
      (sum, multiple) => times(sum, multiple.except?.[name as PriceClass] ?? multiple.times),
      price,
    );
  return ordered(
    Object.fromEntries(Object.entries(rates).map(([name, price]) => [name, one(name, String(price))])),
  );
}
