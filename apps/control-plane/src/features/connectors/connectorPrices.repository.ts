import type { ConnectorPrices, Database, Tx } from '@weighbridge/database';
import { type Price, type PriceRow, priceDocument } from '@weighbridge/domain';
import { type Selectable, sql } from 'kysely';
import { storedPrice } from '../../shared/storedPrice.ts';

/** A version of a negotiated price. */
export type ConnectorPriceRow = Pick<Selectable<ConnectorPrices>, (typeof VERSION)[number]> & PriceRow;

const VERSION = ['connector_id', 'model_id', 'version', 'ended', 'created_at'] as const;

function priceVersions(db: Database) {
  return db
    .selectFrom('connector_prices')
    .select(VERSION)
    .select(storedPrice('connector_prices').as('price'));
}

/** The negotiated prices that apply now, at all connectors and of all models unless given. */
export async function findCurrentPrices(
  db: Database,
  connectorIds?: readonly string[],
  modelIds?: readonly string[],
): Promise<ConnectorPriceRow[]> {
  if (connectorIds?.length === 0) return [];
  return await db
    .selectFrom(
      priceVersions(db)
        .distinctOn(['connector_id', 'model_id'])
        .$if(connectorIds !== undefined, (query) => query.where('connector_id', 'in', connectorIds ?? []))
        .$if(modelIds !== undefined, (query) => query.where('model_id', 'in', modelIds ?? []))
        .orderBy('connector_id')
        .orderBy('model_id')
        .orderBy('version', 'desc')
        .as('newest'),
    )
    .selectAll()
    .where('ended', '=', false)
    .execute();
}

export interface PricePage {
  readonly connectorId: string;
  readonly modelId: string | undefined;
  /** Include versions that were replaced or have ended. */
  readonly allVersions: boolean;
  readonly after: { readonly modelId: string; readonly version: number } | undefined;
  readonly limit: number;
}

/** A page of prices by model, the newest version of a model first. */
export async function findPrices(
  db: Database,
  { connectorId, modelId, allVersions, after, limit }: PricePage,
): Promise<ConnectorPriceRow[]> {
  const newest = sql<number>`(SELECT max(version) FROM connector_prices AS other
    WHERE other.connector_id = connector_prices.connector_id AND other.model_id = connector_prices.model_id)`;
  return await priceVersions(db)
    .where('connector_id', '=', connectorId)
    .$if(modelId !== undefined, (query) => query.where('model_id', '=', modelId ?? ''))
    .$if(!allVersions, (query) => query.where('ended', '=', false).where('version', '=', newest))
    .$if(after !== undefined, (query) =>
      query.where(
        sql<boolean>`(model_id > ${after?.modelId} OR (model_id = ${after?.modelId} AND version < ${after?.version}))`,
      ),
    )
    .orderBy('model_id')
    .orderBy('version', 'desc')
    .limit(limit)
    .execute();
}

/** A version of the price of a model at a connector; the newest unless given. */
export async function findPriceVersion(
  db: Database,
  connectorId: string,
  modelId: string,
  version?: number,
): Promise<ConnectorPriceRow | undefined> {
  return await priceVersions(db)
    .where('connector_id', '=', connectorId)
    .where('model_id', '=', modelId)
    .$if(version !== undefined, (query) => query.where('version', '=', version ?? 0))
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** Adds a version. An undefined price ends the price. The caller holds the connector's lock. */
export async function insertPrice(
  tx: Tx,
  row: { connectorId: string; modelId: string; version: number; price: Price | undefined; now: Date },
): Promise<ConnectorPriceRow> {
  const { connectorId, modelId, version, price, now } = row;
  return await tx
    .insertInto('connector_prices')
    .values({
      connector_id: connectorId,
      model_id: modelId,
      version,
      ended: !price,
      price: price ? JSON.stringify(priceDocument(price)) : null,
      created_at: now,
    })
    .returning([...VERSION, 'price'])
    .executeTakeFirstOrThrow();
}
