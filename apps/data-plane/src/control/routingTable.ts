import type { Connector, Model, Rates, Snapshot } from '@weighbridge/contracts';
import { isFree, type ModelPrice, type TokenPrices } from '@weighbridge/domain';

export interface RoutableModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  readonly price: ModelPrice;
  readonly free: boolean;
}

/** What the control plane last said of models and connectors. Never changed: a new snapshot makes a new table. */
export interface RoutingTable {
  readonly revision: bigint;
  readonly models: ReadonlyMap<string, RoutableModel>;
  /** The connectors of a provider, the preferred one first. */
  readonly connectors: ReadonlyMap<string, readonly Connector[]>;
}

export function routingTable(snapshot: Snapshot): RoutingTable {
  const connectors = new Map<string, Connector[]>();
  for (const connector of snapshot.connectors.toSorted((a, b) => a.priority - b.priority)) {
    connectors.set(connector.provider, [...(connectors.get(connector.provider) ?? []), connector]);
  }
  return {
    revision: snapshot.revision,
    models: new Map(snapshot.models.flatMap((model) => routable(model) ?? [])),
    connectors,
  };
}

/** A model without a price is none at all here: an unknown price is never zero. */
function routable(model: Model): [[string, RoutableModel]] | undefined {
  const { price } = model;
  if (!price?.rates) return undefined;
  const modelPrice: ModelPrice = {
    version: price.version,
    ...tokenPrices(price.rates),
    tiers: price.tiers.flatMap(({ aboveInputTokens, rates }) =>
      rates ? [{ aboveInputTokens, ...tokenPrices(rates) }] : [],
    ),
  };
  const { id, provider, upstreamName } = model;
  return [[id, { id, provider, upstreamName, price: modelPrice, free: isFree(modelPrice) }]];
}

function tokenPrices(rates: Rates): TokenPrices {
  const { input, output, cacheRead, cacheWrite, cacheWrite1h } = rates;
  return { input, output, cacheRead, cacheWrite, cacheWrite1h };
}
