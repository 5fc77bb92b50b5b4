import {
  byClass,
  type ContextPrices,
  completeRates,
  type MediaClass,
  type Money,
  moneyFromNano,
  type NanoUsd,
  nanoFromMoney,
  PRICE_FIELDS,
  type Price,
  type PriceField,
  type PriceTier,
  type PriceVariant,
  type ServiceConditions,
  serviceConditions,
  type TextClass,
  TOKEN_CLASSES,
  type TokenPrices,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { FullPrice, NewPrice } from './prices.schemas.ts';

/** Parses the price of a request body; throws a 422 if its tiers do not rise, or its variants break a rule. */
export function parsePrice(input: NewPrice): Price {
  const { variants = [], tool_prices = {}, ...prices } = input;
  const parsed = variants.map(parseVariant);
  assertDistinct(parsed);
  const toolPrices = Object.entries(tool_prices).map(([tool, perUse]) => [tool, nanoFromMoney(perUse)]);
  return {
    ...parseContextPrices(prices, ''),
    variants: parsed,
    toolPrices: Object.fromEntries(toolPrices) as Record<string, NanoUsd>,
  };
}

/** A price as the API shows it. */
export function toFullPrice({ variants, toolPrices, ...prices }: Price): FullPrice {
  return {
    ...toContextPrices(prices),
    variants: variants.map(({ service, ...variant }) => ({
      service_tier: service.serviceTier || null,
      speed: service.speed || null,
      geography: service.geography || null,
      ...toContextPrices(variant),
    })),
    tool_prices: Object.fromEntries(
      Object.entries(toolPrices).map(([tool, perUse]) => [tool, moneyFromNano(perUse)]),
    ),
  };
}

type NewContextPrices = Omit<NewPrice, 'variants' | 'tool_prices'>;
type NewVariant = NonNullable<NewPrice['variants']>[number];

function parseVariant(
  { service_tier, speed, geography, ...prices }: NewVariant,
  index: number,
): PriceVariant {
  const path = `variants.${index}`;
  const service = serviceConditions(service_tier, speed, geography);
  const names = [
    ['service_tier', service_tier, service.serviceTier],
    ['speed', speed, service.speed],
    ['geography', geography, service.geography],
  ] as const;
  for (const [field, name, parsed] of names) {
    if (name && parsed === '') {
      const why = `"${name}" stands for what the list price covers: omit ${field}, or set the list price instead.`;
      throw variantsInvalid(`${path}.${field}`, why);
    }
  }
  if (names.every(([, , parsed]) => parsed === '')) {
    throw variantsInvalid(path, 'A variant needs a service_tier, a speed or a geography.');
  }
  return { service, ...parseContextPrices(prices, `${path}.`) };
}

function assertDistinct(variants: readonly PriceVariant[]): void {
  const text = ({ serviceTier, speed, geography }: ServiceConditions) =>
    [serviceTier, speed, geography].join('\n');
  const known = new Map<string, number>();
  for (const [index, { service }] of variants.entries()) {
    const earlier = known.get(text(service));
    if (earlier !== undefined) {
      const why = `This variant is for the same service_tier, speed and geography as variants.${earlier}.`;
      throw variantsInvalid(`variants.${index}`, why);
    }
    known.set(text(service), index);
  }
}

function variantsInvalid(param: string, why: string): AppError {
  return new AppError('validation', 'variants_invalid', why, { param });
}

function parseContextPrices({ tiers = [], ...rates }: NewContextPrices, path: string): ContextPrices {
  const parsed = tiers.map(
    ({ above_input_tokens, ...tier }): PriceTier => ({
      aboveInputTokens: above_input_tokens,
      ...parseRates(tier),
    }),
  );
  const rises = parsed.every(
    ({ aboveInputTokens }, index) => aboveInputTokens > (parsed[index - 1]?.aboveInputTokens ?? 0),
  );
  if (!rises) {
    throw new AppError('validation', 'tiers_invalid', 'above_input_tokens must rise from tier to tier.', {
      param: `${path}tiers`,
    });
  }
  return { ...parseRates(rates), tiers: parsed };
}

function toContextPrices({ tiers, ...rates }: ContextPrices) {
  return {
    ...toRates(rates),
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({
      above_input_tokens: aboveInputTokens,
      ...toRates(tier),
    })),
  };
}

function parseRates(input: Omit<NewContextPrices, 'tiers'>): TokenPrices {
  const amount = (price: Money | null | undefined) => price && nanoFromMoney(price);
  const stated = byClass((one) => amount(input[PRICE_FIELDS[one]]));
  const { input_price, output_price } = input;
  return completeRates({ ...stated, input: nanoFromMoney(input_price), output: nanoFromMoney(output_price) });
}

function toRates(rates: TokenPrices) {
  const fields = TOKEN_CLASSES.map((one) => {
    const price = rates[one];
    return [PRICE_FIELDS[one], price === undefined ? null : moneyFromNano(price)];
  });
  return Object.fromEntries(fields) as Record<PriceField<TextClass>, Money> &
    Record<PriceField<MediaClass>, Money | null>;
}
