import type { Database, Tx } from '@weighbridge/database';
import { type ModelPrice, modelPriceOf, type Price, priceOf } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import {
  findAllNewestPrices,
  findModel,
  findModelsById,
  findNewestPrices,
  findPricedModels,
  findPriceVersion,
  findProviders,
  lockModel,
  type ModelRow,
  type PriceProvenance,
} from './catalog.repository.ts';
import { findEnabledModels, type NamedModel } from './enabledModels.repository.ts';

// What other features call. Routes call `catalogEntries.service` (models) and `catalogPrices.service`.

export {
  findNewestPrices,
  findReviewedPrices,
  insertModels,
  insertPriceVersion,
  lockModels,
  type ModelPriceRow,
} from './catalog.repository.ts';
/** For the feed of prices, which makes versions as an operator does. */
export { parseNewModelId } from './catalog.ts';
export type { ModelRow };

export interface CatalogDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** An enabled model with its current price. */
export type PricedModel = ModelRow & PriceProvenance & { readonly price: Price };

/** Reads a model of the catalog, routable or not; throws a 404 if it does not exist. */
export async function existingModel(db: Database, id: string): Promise<ModelRow> {
  return (isStorable(id) && (await findModel(db, id))) || raise(modelNotFound());
}

/** Whether the catalog has a model, routable or not. */
export async function modelExists(db: Database, id: string): Promise<boolean> {
  return isStorable(id) && (await findModel(db, id)) !== undefined;
}

/** The providers of the catalog and of the connectors. */
export async function catalogProviders(db: Database): Promise<ReadonlySet<string>> {
  return new Set(await findProviders(db));
}

/** As `existingModel`, and locks the model and its price until the transaction ends. */
export async function lockedModel(tx: Tx, id: string): Promise<ModelRow> {
  const row = isStorable(id) ? await lockModel(tx, id) : undefined;
  return row && !row.deleted_at ? row : raise(modelNotFound());
}

/** A page of the enabled models of some providers that have a price, by model id. */
export async function pricedModels(
  db: Database,
  wanted: Parameters<typeof findPricedModels>[1],
): Promise<PricedModel[]> {
  const rows = await findPricedModels(db, wanted);
  return rows.flatMap((row) => {
    const price = priceOf(row);
    return price ? [{ ...row, price }] : [];
  });
}

export { findModelIds } from './catalog.repository.ts';
export type { NamedModel } from './enabledModels.repository.ts';

/** The first models of the catalog that are enabled, with a price or without, by id. With `ids`, only of those. */
export async function enabledModels(
  db: Database,
  limit: number,
  ids?: readonly string[],
): Promise<NamedModel[]> {
  return await findEnabledModels(db, limit, ids);
}

/** The models of the catalog with these ids, and their prices if they have one, by model id. */
export async function modelsWithPrices(
  db: Database,
  ids: readonly string[],
): Promise<Map<string, { readonly row: ModelRow; readonly price: Price | undefined }>> {
  const prices = await findNewestPrices(db, ids);
  const rows = await findModelsById(db, ids);
  return new Map(
    rows.map((row) => {
      const newest = prices.get(row.id);
      return [row.id, { row, price: newest && priceOf(newest) }];
    }),
  );
}

/** A version of a model's price, by default the newest; undefined if there is none, or if it ended the price. */
export async function catalogPriceOf(
  db: Database,
  modelId: string,
  version?: number,
): Promise<ModelPrice | undefined> {
  const row = await findPriceVersion(db, modelId, version);
  return row && modelPriceOf(row);
}

/** The prices of all models of the catalog. */
export async function allCurrentPrices(db: Database): Promise<ModelPrice[]> {
  return (await findAllNewestPrices(db)).flatMap((row) => modelPriceOf(row) ?? []);
}

/** Whether an id of a path can be that of a model: Postgres stores no NUL. */
function isStorable(id: string): boolean {
  return !hasInvalidCharacter(id);
}

function modelNotFound(): AppError {
  return new AppError(
    'not_found',
    'model_not_found',
    'The catalog has no model with this id. GET /api/v1/catalog/models lists its models.',
    { param: 'model' },
  );
}
