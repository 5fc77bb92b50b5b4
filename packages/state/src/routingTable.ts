import { equals } from '@bufbuild/protobuf';
import { type Connector, ConnectorSchema, type Model, type Snapshot } from '@weighbridge/contracts';
import {
  compileModelPatterns,
  type DearestPrices,
  dearestPrices,
  isFree,
  ModelNames,
  type ModelPrice,
  priceInRegion,
  profileNameOf,
  type RoutingProfile,
} from '@weighbridge/domain';
import { priceOfMessage } from './price.ts';
import { routingProfile } from './profile.ts';

export interface RoutableModel {
  readonly id: string;
  readonly provider: string;
  readonly upstreamName: string;
  /** Its provider's other names of it. */
  readonly otherNames: readonly string[];
  /** Its provider made it. False if the provider serves a model that another company made. */
  readonly own: boolean;
  /** The catalog's price; `priceAt` has the price at a connector. */
  readonly price: ModelPrice;
  /** The same in those regions of a cloud that connectors are in. */
  readonly regional?: ReadonlyMap<string, ModelPrice>;
  /** What the price does not cover is charged at these prices. */
  readonly dearest: DearestPrices;
  /** Free at every connector that may serve it. */
  readonly free: boolean;
  /** The model's output limit; undefined if unknown. */
  readonly maxOutputTokens: number | undefined;
  readonly contextWindow: number;
  /** The mean of its published benchmark scores, 0 to 100. */
  readonly score: number | undefined;
  readonly capabilities: readonly string[];
}

/** A connector with its model patterns and negotiated prices prepared for routing. */
export interface RoutableConnector extends Connector {
  readonly serves: (modelId: string) => boolean;
  readonly negotiated: ReadonlyMap<string, ModelPrice>;
  /** Of a cloud, if it is known. */
  readonly region?: string;
  /** Of what a connector is for some of its models: the connector itself. */
  readonly whole?: RoutableConnector | undefined;
}

/** Models, connectors and profiles of the latest snapshot. Immutable: a new snapshot makes a new table. */
export interface RoutingTable {
  readonly revision: bigint;
  readonly models: ReadonlyMap<string, RoutableModel>;
  /** By provider, the preferred connector first. */
  readonly connectors: ReadonlyMap<string, readonly RoutableConnector[]>;
  /** By name. */
  readonly profiles: ReadonlyMap<string, RoutingProfile>;
  /** Resolves names that are not the id of a model. */
  readonly names: ModelNames;
  /** The id of a model that the catalog has under this name, and that no enabled connector serves. */
  readonly unserved: (name: string) => string | undefined;
}

/** A model's price at a connector: the negotiated one, else the catalog's, in the connector's region. */
export function priceAt(
  model: RoutableModel,
  connector: RoutableConnector,
): { readonly price: ModelPrice; readonly source: 'catalog' | 'connector' } {
  const negotiated = connector.negotiated.get(model.id);
  if (negotiated) return { price: negotiated, source: 'connector' };
  const regional = connector.region ? model.regional?.get(connector.region) : undefined;
  return { price: regional ?? model.price, source: 'catalog' };
}

/** A model's name at a connector's account. */
export function upstreamNameAt(model: RoutableModel, connector: Connector): string {
  const { upstreamNames } = connector;
  return (Object.hasOwn(upstreamNames, model.id) && upstreamNames[model.id]) || model.upstreamName;
}

/** An unchanged connector stays the same object as in `previous`, because its health is stored by object. */
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
  const negotiated = [...connectors.values()]
    .flat()
    .flatMap((connector) => [...connector.negotiated.values()]);
  const listed = snapshot.models.map((model) => ({ model, price: priceOfMessage(model.price) }));
  const dearest = dearestPrices([...listed.flatMap(({ price }) => price ?? []), ...negotiated]);
  // A model without a price can't be routed to: an unknown price is never zero.
  const models = new Map(
    listed.flatMap(({ model, price }) =>
      price ? [[model.id, routableModel(model, price, dearest, connectors.get(model.provider) ?? [])]] : [],
    ),
  );
  return {
    revision: snapshot.revision,
    models,
    connectors,
    names: modelNames(models, connectors, snapshot.aliases),
    unserved: unservedNames(snapshot.unservedModels),
    profiles: new Map(snapshot.profiles.map((profile) => [profile.name, routingProfile(profile)])),
  };
}

/** Names of models that an enabled connector serves: a bare name never stands for a model that nothing serves. */
function modelNames(
  models: RoutingTable['models'],
  connectors: ReadonlyMap<string, readonly RoutableConnector[]>,
  aliases: Snapshot['aliases'],
): ModelNames {
  const preferred = ({ id, provider }: Pick<RoutableModel, 'id' | 'provider'>) =>
    connectors.get(provider)?.find((connector) => connector.serves(id));
  return new ModelNames({
    models: [...models.values()].filter((model) => preferred(model) !== undefined),
    aliases,
    providers: connectors.keys(),
    priorityOf: (model) => preferred(model)?.priority ?? 0,
  });
}

/** They are many, and only refusals name them: the index is built for the first of these. */
function unservedNames(models: Snapshot['unservedModels']): RoutingTable['unserved'] {
  let names: ModelNames | undefined;
  return (name) => {
    names ??= new ModelNames({
      models: models.map(({ id, otherNames, own }) => {
        return { id, provider: id.slice(0, id.indexOf('/')), otherNames, own };
      }),
      aliases: [],
      providers: [],
      priorityOf: () => 0,
    });
    const found = names.resolve(name, []);
    return found && profileNameOf(found.target) === undefined ? found.target : undefined;
  };
}

/** Where a connector's requests go, if that is a region of a cloud. */
function regionOf({ identity }: Connector): string {
  if (identity.case === 'aws') return identity.value.region;
  return identity.case === 'google' ? identity.value.location : '';
}

/** A price in those regions of connectors in which it is another one; undefined if there is none. */
function regionalPrices(
  price: ModelPrice,
  connectors: readonly RoutableConnector[],
): Pick<RoutableModel, 'regional'> {
  const prices = connectors.flatMap(({ region = '' }) => {
    const there = region === '' ? price : priceInRegion(price, region);
    return there === price ? [] : [[region, there] as const];
  });
  return prices.length === 0 ? {} : { regional: new Map(prices) };
}

function routableConnector(connector: Connector): RoutableConnector {
  const region = regionOf(connector);
  const prices = Object.entries(connector.prices).flatMap(([id, price]) => {
    const negotiated = priceOfMessage(price);
    return negotiated ? [[id, region === '' ? negotiated : priceInRegion(negotiated, region)] as const] : [];
  });
  return {
    ...connector,
    serves: compileModelPatterns(connector.models),
    negotiated: new Map(prices),
    region,
    whole: undefined,
  };
}

function routableModel(
  model: Model,
  price: ModelPrice,
  dearest: DearestPrices,
  connectors: readonly RoutableConnector[],
): RoutableModel {
  const { id, provider, upstreamName, otherNames, own } = model;
  const { maxOutputTokens, contextWindow, score, capabilities } = model;
  const negotiated = connectors.flatMap((connector) => connector.negotiated.get(id) ?? []);
  const free = [price, ...negotiated].every(isFree);
  const regional = regionalPrices(price, connectors);
  const facts = { maxOutputTokens, contextWindow, score, capabilities };
  return { id, provider, upstreamName, otherNames, own, price, ...regional, dearest, free, ...facts };
}
