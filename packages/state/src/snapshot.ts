import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ModelSchema, SnapshotSchema, UnservedModelSchema } from '@weighbridge/contracts';
import type { Alias, Price, RoutingProfile } from '@weighbridge/domain';
import { type ConnectorColumns, connectorMessage } from './connector.ts';
import { priceMessage } from './price.ts';
import { profileMessage } from './profile.ts';

/** What a proxy accepts is 16 MiB a message, with ids of changes and policies beside the tables. */
export const MAX_TABLE_BYTES = 14 * 1024 * 1024;

/** The columns of a model that proxies need. */
export interface ModelColumns {
  readonly id: string;
  readonly provider: string;
  readonly upstream_name: string;
  /** Of its price. */
  readonly version: number;
  readonly price: Price;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: readonly string[];
  readonly other_names: readonly string[];
  readonly own: boolean;
  /** The mean of its published benchmark scores, from 0 to 100; undefined if none is published. */
  readonly avgScore: number | undefined;
}

/** Everything that a proxy needs besides keys and policies, as the control plane reads it in one transaction. */
export interface SnapshotRows {
  readonly revision: bigint;
  readonly connectors: readonly ConnectorColumns[];
  readonly models: readonly ModelColumns[];
  readonly unserved: readonly Pick<ModelColumns, 'id' | 'other_names' | 'own'>[];
  readonly profiles: readonly RoutingProfile[];
  /** Messages already. */
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

function modelMessage(row: ModelColumns): MessageInitShape<typeof ModelSchema> {
  return {
    id: row.id,
    provider: row.provider,
    upstreamName: row.upstream_name,
    price: priceMessage(row.version, row.price),
    contextWindow: row.context_window,
    ...(row.max_output_tokens !== null && { maxOutputTokens: row.max_output_tokens }),
    ...(row.avgScore !== undefined && { score: row.avgScore }),
    capabilities: [...row.capabilities],
    otherNames: [...row.other_names],
    own: row.own,
  };
}

function unservedMessage({
  id,
  other_names,
  own,
}: SnapshotRows['unserved'][number]): MessageInitShape<typeof UnservedModelSchema> {
  return { id, otherNames: [...other_names], own };
}
