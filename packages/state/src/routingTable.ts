import { equals } from '@bufbuild/protobuf';
import { type Connector, ConnectorSchema, type Model, type UnservedModel } from '@weighbridge/contracts';
import {
  type DearestPrices,
  dearestAfter,
  dearestPrices,
  ModelNames,
  type ModelPrice,
  profileNameOf,
  type RoutingProfile,
} from '@weighbridge/domain';
import { type RoutableConnector, routableConnector } from './connector.ts';
import { type RoutableModel, routableModel } from './model.ts';
import { priceOfMessage } from './price.ts';
import { routingProfile } from './profile.ts';
import type { Tables } from './tables.ts';

/** The tables as requests use them. Immutable: a change makes a new table, with everything of the one before that it leaves alone. */
export interface RoutingTable {
  readonly models: ReadonlyMap<string, RoutableModel>;
  /** By provider, the preferred connector first. */
  readonly connectors: ReadonlyMap<string, readonly RoutableConnector[]>;
  /** By name. */
  readonly profiles: ReadonlyMap<string, RoutingProfile>;
  /** Resolves names that are not the id of a model. */
  readonly names: ModelNames;
  /** The id of a model that the catalog has under this name, and that no enabled connector serves. */
  readonly unserved: (name: string) => string | undefined;
  /** What unknown usage of any model is charged at. */
  readonly dearest: DearestPrices;
  /** What it was made of. */
  readonly tables: Tables;
}

/**
 * A row that is the same object as in `previous` is not prepared again, unless it depends on another row that changed. An unchanged
 * connector stays the same object, because its health is stored by object.
 */
export function routingTable(tables: Tables, previous?: RoutingTable): RoutingTable {
  const changed = changedIds(tables.models, previous?.tables.models);
  const connectors = routableConnectors(tables.connectors, previous);
  const dearest = dearestOf(tables, connectors, changed, previous);
  const models = routableModels(tables, { connectors, dearest, changed }, previous);
  const hasSameNames =
    previous?.tables.aliases === tables.aliases &&
    isServedAlike(previous.connectors, connectors) &&
    changed.every((id) => isNamedAlike(previous.models.get(id), models.get(id)));
  return {
    models,
    connectors,
    names: hasSameNames ? previous.names : modelNames(models, connectors, tables.aliases),
    unserved:
      previous?.tables.unservedModels === tables.unservedModels
        ? previous.unserved
        : unservedNames(tables.unservedModels),
    profiles: routingProfiles(tables.profiles, previous),
    dearest,
    tables,
  };
}

/** Of the rows that are in one of the maps alone, or differ. */
function changedIds<Row>(rows: ReadonlyMap<string, Row>, before?: ReadonlyMap<string, Row>): string[] {
  if (rows === before) return [];
  const isOther = (id: string) => rows.get(id) !== before?.get(id);
  const gone = [...(before?.keys() ?? [])].filter((id) => !rows.has(id));
  return [...[...rows.keys()].filter(isOther), ...gone];
}

function routableModels(
  tables: Tables,
  { connectors, dearest, changed }: Pick<RoutingTable, 'connectors' | 'dearest'> & { changed: string[] },
  previous: RoutingTable | undefined,
): RoutingTable['models'] {
  const isAlone = previous?.dearest === dearest && previous.connectors === connectors;
  const models = new Map(isAlone ? previous.models : []);
  for (const id of isAlone ? changed : tables.models.keys()) {
    const model = tables.models.get(id);
    const before = previous?.models.get(id);
    const isSame = before !== undefined && previous?.tables.models.get(id) === model;
    // A model without a price can't be routed to: an unknown price is never zero.
    const price = isSame ? before.price : priceOfMessage(model?.price);
    if (!model || !price) {
      models.delete(id);
      continue;
    }
    const own = connectors.get(model.provider);
    const dependsOnSame = previous?.dearest === dearest && previous.connectors.get(model.provider) === own;
    models.set(id, isSame && dependsOnSame ? before : routableModel(model, price, dearest, own ?? []));
  }
  return models;
}

/** The same names stand for both, or for neither. */
function isNamedAlike(a: RoutableModel | undefined, b: RoutableModel | undefined): boolean {
  if (!a || !b) return a === b;
  return a.provider === b.provider && a.own === b.own && isSameList(a.otherNames, b.otherNames);
}

/** For each model, a connector of the same priority is the preferred one. */
function isServedAlike(a: RoutingTable['connectors'], b: RoutingTable['connectors']): boolean {
  if (a === b) return true;
  const isAlike = (one: RoutableConnector, other: RoutableConnector | undefined) =>
    one.priority === other?.priority && isSameList(one.models, other.models);
  return (
    a.size === b.size &&
    [...a].every(([provider, list]) => {
      const others = b.get(provider);
      return list.length === others?.length && list.every((one, at) => isAlike(one, others[at]));
    })
  );
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((one, at) => one === b[at]);
}

/** The same map as in `previous` if nothing changed, and for each provider the same list if its connectors did not. */
function routableConnectors(
  rows: Tables['connectors'],
  previous: RoutingTable | undefined,
): RoutingTable['connectors'] {
  if (previous?.tables.connectors === rows) return previous.connectors;
  const known = new Map(
    [...(previous?.connectors.values() ?? [])].flat().map((connector) => [connector.id, connector]),
  );
  const byProvider = new Map<string, RoutableConnector[]>();
  const sorted = [...rows.values()].sort((a, b) => a.priority - b.priority || (a.id < b.id ? -1 : 1));
  for (const connector of sorted) {
    const before = known.get(connector.id);
    const isSame = previous?.tables.connectors.get(connector.id) === connector;
    const routable =
      before && (isSame || isEqual(before, connector)) ? before : routableConnector(connector, before);
    const list = byProvider.get(connector.provider);
    if (list) list.push(routable);
    else byProvider.set(connector.provider, [routable]);
  }
  const lists = [...byProvider].map(([provider, list]) => {
    const before = previous?.connectors.get(provider);
    const isSame = before?.length === list.length && list.every((one, at) => one === before[at]);
    return [provider, isSame ? before : list] as const;
  });
  const isSame =
    previous?.connectors.size === lists.length &&
    lists.every(([provider, list]) => previous.connectors.get(provider) === list);
  return isSame ? previous.connectors : new Map(lists);
}

function isEqual(before: RoutableConnector, connector: Connector): boolean {
  return equals(ConnectorSchema, before, connector);
}

/** The same object as in `previous` if it is the same. */
function dearestOf(
  tables: Tables,
  connectors: RoutingTable['connectors'],
  changed: readonly string[],
  previous: RoutingTable | undefined,
): DearestPrices {
  const priceOf = (id: string, model: Model | undefined) =>
    previous && previous.tables.models.get(id) === model
      ? previous.models.get(id)?.price
      : priceOfMessage(model?.price);
  const all = function* (): Iterable<ModelPrice> {
    for (const [id, model] of tables.models) yield* asList(priceOf(id, model));
    for (const connector of [...connectors.values()].flat()) yield* connector.negotiated.values();
  };
  if (!previous) return dearestPrices(all());
  const before = new Set([...previous.connectors.values()].flat());
  const after = new Set([...connectors.values()].flat());
  const pricesAt = (ones: ReadonlySet<RoutableConnector>, others: ReadonlySet<RoutableConnector>) =>
    [...ones].filter((one) => !others.has(one)).flatMap(({ negotiated }) => [...negotiated.values()]);
  return dearestAfter(previous.dearest, {
    removed: [...changed.flatMap((id) => asList(previous.models.get(id)?.price)), ...pricesAt(before, after)],
    added: [
      ...changed.flatMap((id) => asList(priceOf(id, tables.models.get(id)))),
      ...pricesAt(after, before),
    ],
    all,
  });
}

function asList(price: ModelPrice | undefined): ModelPrice[] {
  return price ? [price] : [];
}

function routingProfiles(
  rows: Tables['profiles'],
  previous: RoutingTable | undefined,
): RoutingTable['profiles'] {
  if (previous?.tables.profiles === rows) return previous.profiles;
  return new Map([...rows.values()].map((profile) => [profile.name, routingProfile(profile)]));
}

/** Names of models that an enabled connector serves: a bare name never stands for a model that nothing serves. */
function modelNames(
  models: RoutingTable['models'],
  connectors: ReadonlyMap<string, readonly RoutableConnector[]>,
  aliases: Tables['aliases'],
): ModelNames {
  const preferred = ({ id, provider }: Pick<RoutableModel, 'id' | 'provider'>) =>
    connectors.get(provider)?.find((connector) => connector.serves(id));
  return new ModelNames({
    models: [...models.values()].filter((model) => preferred(model) !== undefined),
    aliases: [...aliases.values()],
    providers: connectors.keys(),
    priorityOf: (model) => preferred(model)?.priority ?? 0,
  });
}

/** They are many, and only refusals name them: the index is built for the first of these. */
function unservedNames(models: Tables['unservedModels']): RoutingTable['unserved'] {
  let names: ModelNames | undefined;
  return (name) => {
    names ??= new ModelNames({
      models: Array.from(models.values(), ({ id, otherNames, own }: UnservedModel) => {
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
