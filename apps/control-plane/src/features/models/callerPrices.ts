import { compileModelPatterns } from '@weighbridge/domain';
import type { PricedModel } from '../catalog/catalog.service.ts';
import type { NegotiatedPrice } from '../connectors/connectorPrices.service.ts';
import type { UsableConnector } from '../connectors/connectors.service.ts';

type Price = PricedModel['price'];
type Serving = Pick<UsableConnector, 'id' | 'provider' | 'models' | 'priority' | 'weight'>;

/**
 * What a request for a model is charged: the price at the connector that serves it. That is the one of the first priority that
 * serves most requests; among equal weights the dearest, so that a request is not charged more than the list says.
 */
export function callerPrices(
  connectors: readonly Serving[],
  negotiated: ReadonlyMap<string, readonly NegotiatedPrice[]>,
): (model: PricedModel) => Price {
  const serving = connectors.map(({ id, provider, models, priority, weight }) => ({
    provider,
    priority,
    weight,
    serves: compileModelPatterns(models),
    prices: new Map(negotiated.get(id)?.map(({ modelId, price }) => [modelId, price])),
  }));
  return (model) => {
    const [first] = serving
      .filter(({ provider, serves }) => provider === model.provider && serves(model.id))
      .map(({ priority, weight, prices }) => ({
        priority,
        weight,
        price: prices.get(model.id) ?? model.price,
      }))
      .sort((a, b) => a.priority - b.priority || b.weight - a.weight || dearerFirst(a.price, b.price));
    return first?.price ?? model.price;
  };
}

function dearerFirst(a: Price, b: Price): number {
  return Number(b.input + b.output - a.input - a.output);
}
