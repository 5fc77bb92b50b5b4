import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type Snapshot, SnapshotSchema, type TableRow, TableRowSchema } from '@weighbridge/contracts';
import type { Alias, RoutingProfile } from '@weighbridge/domain';
import { type ConnectorColumns, connectorMessage } from './connector.ts';
import { type ModelColumns, modelMessage, unservedMessage } from './model.ts';
import { priceMessage } from './price.ts';
import { profileMessage } from './profile.ts';

/** A proxy and a control plane hold all rows in memory, at up to 16 times their size in protobuf: half a GiB. */
export const MAX_TABLE_BYTES = 32 * 1024 * 1024;
/** A row is sent in one message. Proxies accept 16 MiB. */
export const MAX_ROW_BYTES = 4 * 1024 * 1024;
/** A proxy of release 0.1.0 gets all rows in one message, with ids of changes and policies beside them. */
export const MAX_WHOLE_TABLE_BYTES = 14 * 1024 * 1024;
/** What is sent in one message, unless a row alone is larger: some milliseconds of a proxy's thread. */
const PART_BYTES = 256 * 1024;

/** Everything that a proxy needs besides keys and policies, as the control plane reads it in one transaction. */
export interface TableColumns {
  readonly connectors: readonly ConnectorColumns[];
  readonly models: readonly ModelColumns[];
  readonly unserved: readonly Pick<ModelColumns, 'id' | 'other_names' | 'own'>[];
  readonly profiles: readonly RoutingProfile[];
  /** Already in the form of messages: not converted. */
  readonly aliases: readonly Alias[];
}

/** A row, and its size in protobuf with its place in a message. */
export interface SizedRow {
  readonly row: TableRow;
  readonly packed: Uint8Array;
}

/** Each row as proxies get it. `withRows` is what they do with them. */
export function tableRows(columns: TableColumns): SizedRow[] {
  return [
    ...columns.connectors.flatMap(connectorRows),
    ...columns.models.map((row) => sized({ row: { case: 'model', value: modelMessage(row) } })),
    ...columns.unserved.map((row) => sized({ row: { case: 'unservedModel', value: unservedMessage(row) } })),
    ...columns.profiles.map((row) => sized({ row: { case: 'profile', value: profileMessage(row) } })),
    ...columns.aliases.map((row) => sized({ row: { case: 'alias', value: row } })),
  ];
}

/** A price is a row of its own: a connector may have thousands. */
function connectorRows(row: ConnectorColumns): SizedRow[] {
  const prices = row.negotiated.map(({ modelId, version, price }) =>
    sized({
      row: {
        case: 'negotiatedPrice',
        value: { connectorId: row.id, modelId, price: priceMessage(version, price) },
      },
    }),
  );
  const connector = connectorMessage({ ...row, negotiated: [] });
  return [sized({ row: { case: 'connector', value: connector } }), ...prices];
}

function sized(message: MessageInitShape<typeof TableRowSchema>): SizedRow {
  const row = create(TableRowSchema, message);
  return { row, packed: toBinary(TableRowSchema, row) };
}

/** Names a row among all. */
export function rowKey({ row }: TableRow): string {
  if (row.case === 'negotiatedPrice') return `${row.case} ${row.value.connectorId} ${row.value.modelId}`;
  return `${row.case} ${row.value?.id}`;
}

/** Tells proxies that a row is gone. */
export function deletedRow({ row: { row } }: SizedRow): SizedRow {
  switch (row.case) {
    case undefined:
      throw new Error('a row of no kind');
    case 'negotiatedPrice': {
      const { connectorId, modelId } = row.value;
      return sized({ row: { case: row.case, value: { connectorId, modelId } }, isDeleted: true });
    }
    default:
      return sized({ row: { case: row.case, value: { id: row.value.id } }, isDeleted: true });
  }
}

/** Rows in the order in which they can be applied: a connector before its prices. Grouped so that each group is a small message. */
export function partsOf(rows: readonly SizedRow[]): TableRow[][] {
  const isPrice = ({ row }: SizedRow) => row.row.case === 'negotiatedPrice';
  const parts: TableRow[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const one of [...rows.filter((row) => !isPrice(row)), ...rows.filter(isPrice)]) {
    if (bytes + one.packed.length > PART_BYTES) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)?.push(one.row);
    bytes += one.packed.length;
  }
  return parts;
}

/** All rows in one message, as a proxy of release 0.1.0 gets them. */
export function wholeTables(rows: Iterable<SizedRow>): Snapshot {
  const whole = create(SnapshotSchema);
  const prices: { connectorId: string; modelId: string; price: Snapshot['models'][number]['price'] }[] = [];
  for (const { row } of rows) {
    const { row: one } = row;
    if (one.case === 'connector') whole.connectors.push({ ...one.value, prices: {} });
    else if (one.case === 'negotiatedPrice') prices.push({ ...one.value, price: one.value.price });
    else if (one.case === 'model') whole.models.push(one.value);
    else if (one.case === 'unservedModel') whole.unservedModels.push(one.value);
    else if (one.case === 'profile') whole.profiles.push(one.value);
    else if (one.case === 'alias') whole.aliases.push(one.value);
  }
  const connectors = new Map(whole.connectors.map((connector) => [connector.id, connector]));
  for (const { connectorId, modelId, price } of prices) {
    const connector = connectors.get(connectorId);
    if (connector && price) connector.prices[modelId] = price;
  }
  // The order in which they are tried.
  whole.connectors.sort((a, b) => a.priority - b.priority || (a.id < b.id ? -1 : 1));
  return whole;
}
