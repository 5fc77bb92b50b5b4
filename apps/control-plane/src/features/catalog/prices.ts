import { API_PRICE, type Price, readPrice, serviceConditions, writePrice } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { FullPrice, NewPrice } from './prices.schemas.ts';

/** Parses the price of a request body; throws a 422 if its tiers do not rise, or its variants break a rule. */
export function parsePrice(input: NewPrice): Price {
  const { variants = [], tiers } = input;
  for (const [index, variant] of variants.entries()) {
    assertConditions(variant, `variants.${index}`);
    assertRising(variant.tiers, `variants.${index}.tiers`);
  }
  assertDistinct(variants);
  assertRising(tiers, 'tiers');
  return readPrice(API_PRICE, input);
}

/** A price as the API shows it. */
export function toFullPrice(price: Price): FullPrice {
  return writePrice(API_PRICE, price) as FullPrice;
}

const CONDITIONS = ['service_tier', 'speed', 'geography'] as const;
type NewVariant = NonNullable<NewPrice['variants']>[number];

function assertConditions(variant: NewVariant, path: string): void {
  for (const field of CONDITIONS) {
    const name = variant[field];
    if (name && serviceConditions(name).serviceTier === '') {
      const why = `"${name}" stands for what the list price covers: omit ${field}, or set the list price instead.`;
      throw variantsInvalid(`${path}.${field}`, why);
    }
  }
  if (CONDITIONS.every((field) => !variant[field])) {
    throw variantsInvalid(path, 'A variant needs a service_tier, a speed or a geography.');
  }
}

function assertDistinct(variants: readonly NewVariant[]): void {
  const known = new Map<string, number>();
  for (const [index, variant] of variants.entries()) {
    const conditions = CONDITIONS.map((field) => variant[field] ?? '').join('\n');
    const earlier = known.get(conditions);
    if (earlier !== undefined) {
      const why = `This variant is for the same service_tier, speed and geography as variants.${earlier}.`;
      throw variantsInvalid(`variants.${index}`, why);
    }
    known.set(conditions, index);
  }
}

function variantsInvalid(param: string, why: string): AppError {
  return new AppError('validation', 'variants_invalid', why, { param });
}

function assertRising(tiers: NewPrice['tiers'] = [], param: string): void {
  const rises = tiers.every(
    ({ above_input_tokens: above }, index) => above > (tiers[index - 1]?.above_input_tokens ?? 0),
  );
  if (rises) return;
  throw new AppError('validation', 'tiers_invalid', 'above_input_tokens must rise from tier to tier.', {
    param,
  });
}
