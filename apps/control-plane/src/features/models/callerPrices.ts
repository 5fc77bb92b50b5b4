import { compileModelPatterns, priceInRegion } from '@weighbridge/domain';
import type { PricedModel } from '../catalog/catalog.service.ts';
import type { NegotiatedPrice } from '../connectors/connectorPrices.service.ts';
import type { UsableConnector } from '../connectors/connectors.service.ts';
import { regionOf } from '../connectors/connectors.ts';

type Price = PricedModel['price'];

/** What a caller is charged, and since when if it was negotiated. */
export interface CallerPrice {
  readonly price: Price;
  readonly negotiatedAt: Date | undefined;
}
type Serving = Pick<UsableConnector, 'id' | 'provider' | 'models' | 'priority' | 'weight' | 'auth'>;

/**
 * What a request for a model is charged: the price at the connector that serves it. That is the one of the first priority that
 * serves most requests; among equal weights the dearest, so that a request is not charged more than the list says.
 */
export function callerPrices(
  connectors: readonly Serving[],
  negotiated: ReadonlyMap<string, readonly NegotiatedPrice[]>,
): (model: PricedModel) => CallerPrice {
  const serving = connectors.map(({ id, provider, models, priority, weight, auth }) => ({
    provider,
    priority,
    weight,
    region: regionOf({ auth }),
    serves: compileModelPatterns(models),
    negotiated: new Map(negotiated.get(id)?.map((one) => [one.modelId, one])),
  }));
  return (model) => {
    const [first] = serving
      .filter(({ provider, serves }) => provider === model.provider && serves(model.id))
      .map(({ priority, weight, region, negotiated }) => ({
        priority,
        weight,
        price: priceInRegion(negotiated.get(model.id)?.price ?? model.price, region),
        negotiatedAt: negotiated.get(model.id)?.createdAt,
      }))
      .sort((a, b) => a.priority - b.priority || b.weight - a.weight || dearerFirst(a.price, b.price));
    return { price: first?.price ?? model.price, negotiatedAt: first?.negotiatedAt };
  };
}

function dearerFirst(a: Price, b: Price): number {
  return Number(b.input + b.output - a.input - a.output);
}
