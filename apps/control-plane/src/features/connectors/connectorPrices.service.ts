import type { Database } from '@weighbridge/database';
import {
  isSamePrice,
  type ModelPrice,
  modelPriceOf,
  type Price,
  priceOf,
  priceOfDocument,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { existingModel } from '../catalog/catalog.service.ts';
import type { NewPrice } from '../catalog/prices.schemas.ts';
import { parsePrice, toFullPrice } from '../catalog/prices.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  type ConnectorPriceRow,
  findCurrentPrices,
  findPrices,
  findPriceVersion,
  insertPrice,
} from './connectorPrices.repository.ts';
import type { ConnectorPrice, ConnectorPriceQuery } from './connectorPrices.schemas.ts';
import { lockConnector } from './connectors.repository.ts';
import { connectorNotFound, existingConnector } from './connectors.service.ts';

export interface ConnectorPriceDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** A negotiated price that applies now. */
export interface NegotiatedPrice {
  readonly modelId: string;
  readonly version: number;
  readonly price: Price;
  readonly createdAt: Date;
}

/** What was negotiated for some connectors. */
export interface Negotiated {
  /** By connector id. */
  readonly prices: ReadonlyMap<string, readonly NegotiatedPrice[]>;
  /** Models with a price that only a newer release can read. They are not served: the catalog's price may be lower. */
  readonly unreadable: ReadonlySet<string>;
}

/** The negotiated prices that apply now. With `modelIds`, only of those. */
export async function negotiatedPrices(
  db: Database,
  connectorIds: readonly string[],
  modelIds?: readonly string[],
): Promise<Negotiated> {
  const prices = new Map<string, NegotiatedPrice[]>();
  const unreadable = new Set<string>();
  for (const row of await findCurrentPrices(db, connectorIds, modelIds)) {
    const price = priceOf(row);
    const { model_id: modelId, version, created_at: createdAt } = row;
    if (!price) {
      unreadable.add(modelId);
      continue;
    }
    const negotiated = { modelId, version, price, createdAt };
    const others = prices.get(row.connector_id);
    if (others) others.push(negotiated);
    else prices.set(row.connector_id, [negotiated]);
  }
  return { prices, unreadable };
}

/**
 * A version of the price of a model at a connector, by default the newest; undefined if none, or if it ended the price. Throws if
 * only a newer release can read it.
 */
export async function negotiatedPriceOf(
  db: Database,
  connectorId: string,
  modelId: string,
  version?: number,
): Promise<ModelPrice | undefined> {
  const row = await findPriceVersion(db, connectorId, modelId, version);
  if (!row || row.ended) return undefined;
  return { version: row.version, ...priceOfDocument(row.price) };
}

/** The negotiated prices of all connectors that apply now. */
export async function allNegotiatedPrices(db: Database): Promise<ModelPrice[]> {
  return (await findCurrentPrices(db)).flatMap((row) => modelPriceOf(row) ?? []);
}

export async function listConnectorPrices(
  deps: ConnectorPriceDeps,
  connectorId: string,
  query: ConnectorPriceQuery,
): Promise<PageOf<ConnectorPrice>> {
  const list = `connector_prices ${connectorId}`;
  const request = pageRequest(list, query, positionOf(part.text, part.integer));
  await existingConnector(deps.db, connectorId);
  const [modelId, version] = request.after ?? [];
  const rows = await findPrices(deps.db, {
    connectorId,
    modelId: query.model,
    allVersions: query.all_versions === 'true',
    after: modelId === undefined ? undefined : { modelId, version: Number(version) },
    limit: request.size + 1,
  });
  return page(list, request, rows, (row) => [row.model_id, String(row.version)], toConnectorPrice);
}

/** Sets the price of a model at a connector from now on. The same price changes nothing. */
export async function putConnectorPrice(
  deps: ConnectorPriceDeps,
  caller: Caller,
  connectorId: string,
  modelId: string,
  input: NewPrice,
  assertMatch: AssertMatch,
): Promise<ConnectorPrice> {
  const now = deps.now();
  const price = parsePrice(input);
  return await deps.db.transaction().execute(async (tx) => {
    const connector = (await lockConnector(tx, connectorId)) ?? raise(connectorNotFound());
    const model = await existingModel(tx, modelId);
    if (model.provider !== connector.provider) {
      throw new AppError(
        'validation',
        'model_of_other_provider',
        `This connector serves only models of ${connector.provider}.`,
        { param: 'model' },
      );
    }
    const newest = await findPriceVersion(tx, connectorId, modelId);
    assertMatch(newest && !newest.ended ? toConnectorPrice(newest) : undefined);
    if (newest && isSamePrice(priceOf(newest), price)) return toConnectorPrice(newest);
    const version = (newest?.version ?? 0) + 1;
    const row = await insertPrice(tx, { connectorId, modelId, version, price, now });
    await recordChange(tx, {
      actor: caller,
      action: 'connector_price.set',
      resourceId: connectorId,
      detail: { model: modelId, version },
      at: now,
    });
    return toConnectorPrice(row);
  });
}

/** Ends a negotiated price: from now on the catalog's price applies at the connector. */
export async function endConnectorPrice(
  deps: ConnectorPriceDeps,
  caller: Caller,
  connectorId: string,
  modelId: string,
  assertMatch: AssertMatch,
): Promise<ConnectorPrice> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    if (!(await lockConnector(tx, connectorId))) throw connectorNotFound();
    const newest = await currentPrice(tx, connectorId, modelId);
    assertMatch(toConnectorPrice(newest));
    const version = newest.version + 1;
    const row = await insertPrice(tx, { connectorId, modelId, version, price: undefined, now });
    await recordChange(tx, {
      actor: caller,
      action: 'connector_price.ended',
      resourceId: connectorId,
      detail: { model: modelId, version },
      at: now,
    });
    return toConnectorPrice(row);
  });
}

/** Throws a 404 if the connector or the model does not exist. */
export async function assertPricePath(
  deps: ConnectorPriceDeps,
  connectorId: string,
  modelId: string,
): Promise<void> {
  await existingConnector(deps.db, connectorId);
  await existingModel(deps.db, modelId);
}

/** Throws a 404 if the connector does not exist, or has no price of the model. */
export async function assertPriceExists(
  deps: ConnectorPriceDeps,
  connectorId: string,
  modelId: string,
): Promise<void> {
  await existingConnector(deps.db, connectorId);
  await currentPrice(deps.db, connectorId, modelId);
}

async function currentPrice(db: Database, connectorId: string, modelId: string): Promise<ConnectorPriceRow> {
  const newest = hasInvalidCharacter(modelId) ? undefined : await findPriceVersion(db, connectorId, modelId);
  if (!newest || newest.ended) throw priceNotFound();
  return newest;
}

function priceNotFound(): AppError {
  return new AppError(
    'not_found',
    'price_not_found',
    "This connector has no negotiated price for this model. The catalog's price applies.",
    { param: 'model' },
  );
}

function toConnectorPrice(row: ConnectorPriceRow): ConnectorPrice {
  const price = priceOf(row);
  return {
    model: row.model_id,
    version: row.version,
    price: price ? toFullPrice(price) : null,
    created_at: row.created_at.toISOString(),
  };
}
