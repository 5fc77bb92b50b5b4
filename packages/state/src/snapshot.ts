import { equals, type MessageInitShape } from '@bufbuild/protobuf';
import { ConnectorSchema, type Snapshot, type SnapshotSchema } from '@weighbridge/contracts';
import {
  type Alias,
  dearestPrices,
  ModelNames,
  profileNameOf,
  type RoutingProfile,
} from '@weighbridge/domain';
import {
  type ConnectorColumns,
  connectorMessage,
  type RoutableConnector,
  routableConnector,
} from './connector.ts';
import {
  type ModelColumns,
  modelMessage,
  type RoutableModel,
  routableModel,
  unservedMessage,
} from './model.ts';
import { priceOfMessage } from './price.ts';
import { profileMessage, routingProfile } from './profile.ts';

/** What a proxy accepts is 16 MiB a message, with ids of changes and policies beside the tables. */
export const MAX_TABLE_BYTES = 14 * 1024 * 1024;

/** Everything that a proxy needs besides keys and policies, as the control plane reads it in one transaction. */
export interface SnapshotRows {
  readonly revision: bigint;
  readonly connectors: readonly ConnectorColumns[];
  readonly models: readonly ModelColumns[];
  readonly unserved: readonly Pick<ModelColumns, 'id' | 'other_names' | 'own'>[];
  readonly profiles: readonly RoutingProfile[];
  /** Already in the form of messages: not converted. */
  readonly aliases: readonly Alias[];
}

/** `routingTable` is what a proxy makes of it. */
export function snapshotMessage(rows: SnapshotRows): MessageInitShape<typeof SnapshotSchema> {
  return {
    revision: rows.revision,
    connectors: rows.connectors.map(connectorMessage),
    models: rows.models.map(modelMessage),
    unservedModels: rows.unserved.map(unservedMessage),
    profiles: rows.profiles.map(profileMessage),
    aliases: [...rows.aliases],
  };
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
