import type {
  Alias,
  Connector,
  Model,
  Price,
  Profile,
  Snapshot,
  TableRow,
  UnservedModel,
} from '@weighbridge/contracts';

/**
 * The rows that a proxy has, by id. Immutable: a change makes new maps of the kinds that it changes. An unchanged row stays the same
 * object, by which `routingTable` knows what it has to prepare anew.
 */
export interface Tables {
  /** With their negotiated prices. */
  readonly connectors: ReadonlyMap<string, Connector>;
  readonly models: ReadonlyMap<string, Model>;
  readonly unservedModels: ReadonlyMap<string, UnservedModel>;
  readonly profiles: ReadonlyMap<string, Profile>;
  readonly aliases: ReadonlyMap<string, Alias>;
}

export const NO_TABLES: Tables = {
  connectors: new Map(),
  models: new Map(),
  unservedModels: new Map(),
  profiles: new Map(),
  aliases: new Map(),
};

/** The rows of a message with all of them: of a state file, and of a control plane of release 0.1.0. */
export function tablesOf(snapshot: Snapshot): Tables {
  return {
    connectors: byId(snapshot.connectors),
    models: byId(snapshot.models),
    unservedModels: byId(snapshot.unservedModels),
    profiles: byId(snapshot.profiles),
    aliases: byId(snapshot.aliases),
  };
}

function byId<Row extends { readonly id: string }>(rows: readonly Row[]): ReadonlyMap<string, Row> {
  return new Map(rows.map((row) => [row.id, row]));
}

/** The tables with these rows in place of those of the same ids. Throws if they name a connector that there is not. */
export function withRows(tables: Tables, rows: Iterable<TableRow>): Tables {
  const changed = new ChangedTables(tables);
  for (const { row, isDeleted } of rows) {
    switch (row.case) {
      // A kind that only a newer control plane knows.
      case undefined:
        break;
      case 'negotiatedPrice':
        changed.setPrice(row.value, isDeleted);
        break;
      case 'connector': {
        const before = changed.tables.connectors.get(row.value.id);
        const { prices = {} } = before ?? {};
        changed.set('connectors', { ...row.value, prices }, isDeleted);
        break;
      }
      default:
        changed.set(KINDS[row.case], row.value, isDeleted);
    }
  }
  return changed.tables;
}

type Kind = keyof Tables;
const KINDS = {
  model: 'models',
  unservedModel: 'unservedModels',
  profile: 'profiles',
  alias: 'aliases',
} as const;

/** Copies what it changes, once. */
class ChangedTables {
  readonly #copied = new Set<Kind>();
  /** Connectors whose prices are copied. */
  readonly #priced = new Map<string, Record<string, Price>>();
  #tables: Tables;

  constructor(tables: Tables) {
    this.#tables = tables;
  }

  get tables(): Tables {
    return this.#tables;
  }

  set<Row extends { readonly id: string }>(kind: Kind, row: Row, isDeleted: boolean): void {
    if (!this.#copied.has(kind)) {
      this.#copied.add(kind);
      this.#tables = { ...this.#tables, [kind]: new Map<string, unknown>(this.#tables[kind]) };
    }
    const rows = this.#tables[kind] as ReadonlyMap<string, unknown> as Map<string, Row>;
    if (isDeleted) rows.delete(row.id);
    else rows.set(row.id, row);
  }

  setPrice(
    {
      connectorId,
      modelId,
      price,
    }: { readonly connectorId: string; readonly modelId: string; readonly price?: Price | undefined },
    isDeleted: boolean,
  ): void {
    const connector = this.#tables.connectors.get(connectorId);
    if (!connector) {
      // It is gone with its prices.
      if (isDeleted) return;
      throw new Error(`a price at the connector ${connectorId}, which is unknown`);
    }
    let prices = this.#priced.get(connectorId);
    if (!prices) {
      prices = { ...connector.prices };
      this.#priced.set(connectorId, prices);
      this.set('connectors', { ...connector, prices }, false);
    }
    if (isDeleted || !price) delete prices[modelId];
    else prices[modelId] = price;
  }
}
