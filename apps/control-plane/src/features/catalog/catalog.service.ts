import type { Database, Tx } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import {
  findModel,
  findModelsById,
  findNewestPrices,
  findPricedModels,
  lockModel,
  type ModelRow,
} from './catalog.repository.ts';
import { type Price, priceOf } from './prices.ts';

export type { ModelRow };

export interface CatalogDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** An enabled model with its price now. */
export type PricedModel = ModelRow & { readonly version: number; readonly price: Price };

/** A model of the catalog, routable or not. Any other is not found. */
export async function existingModel(db: Database, id: string): Promise<ModelRow> {
  return (await findModel(db, id)) ?? raise(modelNotFound());
}

/** As `existingModel`, and nobody else changes it or its price until the transaction ends. */
export async function lockedModel(tx: Tx, id: string): Promise<ModelRow> {
  const row = await lockModel(tx, id);
  return row && !row.deleted_at ? row : raise(modelNotFound());
}

/** The enabled models of some providers that have a price, by id, after a given one. */
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

/** The entries of the catalog among these, each with its price where it has one, by id. */
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

function modelNotFound(): AppError {
  return new AppError(
    'not_found',
    'model_not_found',
    'The catalog has no model with this id. GET /api/v1/catalog/models lists what there is.',
    { param: 'model' },
  );
}
