import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Price as PriceMessage, PriceSchema, Rates as RatesMessage } from '@weighbridge/contracts';
import {
  byClass,
  type ContextPrices,
  type ModelPrice,
  type Price,
  type TokenPrices,
} from '@weighbridge/domain';

/** The price as proxies get it. */
export function priceMessage(version: number, { variants, toolPrices, ...prices }: Price) {
  return {
    version,
    ...contextMessage(prices),
    variants: variants.map(({ service, ...variant }) => ({ ...service, ...contextMessage(variant) })),
    toolPrices,
  } satisfies MessageInitShape<typeof PriceSchema>;
}

/** The inverse of `priceMessage`; undefined without rates: an unknown price is never zero. */
export function priceOfMessage(message: PriceMessage | undefined): ModelPrice | undefined {
  if (!message?.rates) return undefined;
  return {
    version: message.version,
    ...contextOf(message.rates, message.tiers),
    variants: message.variants.flatMap(({ serviceTier, speed, geography, rates, tiers }) =>
      rates ? [{ service: { serviceTier, speed, geography }, ...contextOf(rates, tiers) }] : [],
    ),
    toolPrices: message.toolPrices,
  };
}

/** The message has a field for each class, under its name here. An unknown price is an absent field. */
function contextMessage({ tiers, ...rates }: ContextPrices) {
  return {
    rates,
    tiers: tiers.map(({ aboveInputTokens, ...tier }) => ({ aboveInputTokens, rates: tier })),
  };
}

function contextOf(rates: RatesMessage, tiers: PriceMessage['tiers']): ContextPrices {
  return {
    ...ratesOfMessage(rates),
    tiers: tiers.flatMap(({ aboveInputTokens, rates: above }) =>
      above ? [{ aboveInputTokens, ...ratesOfMessage(above) }] : [],
    ),
  };
}

function ratesOfMessage(rates: RatesMessage): TokenPrices {
  return byClass((one) => rates[one]) as TokenPrices;
}
