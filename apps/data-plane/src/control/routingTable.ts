import { equals } from '@bufbuild/protobuf';
import {
  type Connector,
  ConnectorSchema,
  type Model,
  type Price,
  type Rates,
  type Snapshot,
} from '@weighbridge/contracts';
import {
  compileModelPatterns,
  isFree,
  type ModelPrice,
  type RoutingProfile,
  type TokenPrices,
} from '@weighbridge/domain';
import { routingProfile } from './routingProfile.ts';

export interface RoutableModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  /** The catalog's; what holds at a connector is told by `priceAt`. */
  readonly price: ModelPrice;
  /** Free at every connector that may serve it. */
  readonly free: boolean;
  /** The most that it writes in an answer; undefined where nobody says. */
  readonly maxOutputTokens: number | undefined;
  readonly contextWindow: number;
  /** The mean of its published benchmark scores, of 100. */
  readonly score: number | undefined;
  readonly capabilities: readonly string[];
}

/** A connector with what it was told of its models made ready to be asked. */
export interface RoutableConnector extends Connector {
  readonly serves: (modelId: string) => boolean;
  readonly negotiated: ReadonlyMap<string, ModelPrice>;
}

/** What the control plane last said of models, connectors and profiles. Never changed: a new snapshot makes a new table. */
export interface RoutingTable {
  readonly revision: bigint;
  readonly models: ReadonlyMap<string, RoutableModel>;
  /** The connectors of a provider, the preferred one first. */
  readonly connectors: ReadonlyMap<string, readonly RoutableConnector[]>;
  /** By name. */
  readonly profiles: ReadonlyMap<string, RoutingProfile>;
}

/** What a model costs at a connector: the price that was negotiated there, else the catalog's. */
export function priceAt(
  model: RoutableModel,
  connector: RoutableConnector,
): { readonly price: ModelPrice; readonly source: 'catalog' | 'connector' } {
  const negotiated = connector.negotiated.get(model.id);
  return negotiated ? { price: negotiated, source: 'connector' } : { price: model.price, source: 'catalog' };
}

/** What a connector's account calls a model. */
export function upstreamNameAt(model: RoutableModel, connector: Connector): string {
  const { upstreamNames } = connector;
  return (Object.hasOwn(upstreamNames, model.id) && upstreamNames[model.id]) || model.upstreamName;
}

/** A connector of which nothing has changed stays the object that it is in `previous`: what is known of it goes with that. */
export function routingTable(snapshot: Snapshot, previous?: RoutingTable): RoutingTable {
  const known = new Map(
    [...(previous?.connectors.values() ?? [])].flat().map((connector) => [connector.id, connector]),
  );
  const connectors = new Map<string, RoutableConnector[]>();
  for (const connector of snapshot.connectors.toSorted((a, b) => a.priority - b.priority)) {
    const others = connectors.get(connector.provider) ?? [];
    const before = known.get(connector.id);
    const routable =
      before && equals(ConnectorSchema, before, connector) ? before : routableConnector(connector);
    connectors.set(connector.provider, [...others, routable]);
  }
  return {
    revision: snapshot.revision,
    models: new Map(
      snapshot.models.flatMap((model) => routableModel(model, connectors.get(model.provider) ?? []) ?? []),
    ),
    connectors,
    profiles: new Map(snapshot.profiles.map((profile) => [profile.name, routingProfile(profile)])),
  };
}

function routableConnector(connector: Connector): RoutableConnector {
  const prices = Object.entries(connector.prices).flatMap(([id, price]) => {
    const negotiated = modelPrice(price);
    return negotiated ? [[id, negotiated] as const] : [];
  });
  return { ...connector, serves: compileModelPatterns(connector.models), negotiated: new Map(prices) };
}

/** A model without a price is none at all here: an unknown price is never zero. */
function routableModel(
  { price, ...model }: Model,
  connectors: readonly RoutableConnector[],
): [[string, RoutableModel]] | undefined {
  const catalogs = modelPrice(price);
  if (!catalogs) return undefined;
  const { id, provider, upstreamName, maxOutputTokens, contextWindow, score, capabilities } = model;
  const negotiated = connectors.flatMap((connector) => connector.negotiated.get(id) ?? []);
  const free = [catalogs, ...negotiated].every(isFree);
  const facts = { maxOutputTokens, contextWindow, score, capabilities };
  return [[id, { id, provider, upstreamName, price: catalogs, free, ...facts }]];
}

function modelPrice(price: Price | undefined): ModelPrice | undefined {
  if (!price?.rates) return undefined;
  return {
    version: price.version,
    ...tokenPrices(price.rates),
    tiers: price.tiers.flatMap(({ aboveInputTokens, rates }) =>
      rates ? [{ aboveInputTokens, ...tokenPrices(rates) }] : [],
    ),
  };
}

function tokenPrices(rates: Rates): TokenPrices {
  const { input, output, cacheRead, cacheWrite, cacheWrite1h } = rates;
  return { input, output, cacheRead, cacheWrite, cacheWrite1h };
}
