import type { Tx } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  findNewestPrices,
  findPriceVersions,
  insertPriceVersion,
  type ModelPriceRow,
} from './catalog.repository.ts';
import { type CatalogDeps, existingModel, lockedModel } from './catalog.service.ts';
import type { ShippedJson } from './catalog.ts';
import {
  isSamePrice,
  type PresentedPrice,
  type Price,
  type PriceInput,
  presentPrice,
  priceFrom,
  priceFromJson,
  priceOf,
} from './prices.ts';

/** A version of a price as the API shows it. From one without a price on there is none. */
export interface PresentedVersion {
  readonly version: number;
  readonly origin: 'catalog' | 'operator';
  readonly price: PresentedPrice | null;
  readonly created_at: string;
}

/** Every version of a model's price, the newest first. */
export async function listPrices(
  deps: CatalogDeps,
  id: string,
  query: { readonly page_size?: string; readonly page_token?: string },
): Promise<PageOf<PresentedVersion>> {
  const list = `catalog_prices ${id}`;
  const request = pageRequest(list, query, positionOf(part.integer));
  const { id: modelId } = await existingModel(deps.db, id);
  const before = request.after && Number(request.after[0]);
  const rows = await findPriceVersions(deps.db, { modelId, before, limit: request.size + 1 });
  return page(list, request, rows, (row) => [String(row.version)], presentVersion);
}

/** Sets the operator's price; one that is the operator's already changes nothing. It holds for what is admitted from now on. */
export async function setPrice(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: PriceInput,
): Promise<{ version: PresentedVersion; added: boolean }> {
  const now = deps.now();
  const price = priceFrom(input);
  return await deps.db.transaction().execute(async (tx) => {
    await lockedModel(tx, id);
    const { row, added } = await setOperatorPrice(tx, id, price, now);
    if (added) {
      await recordChange(tx, {
        actor: caller,
        action: 'model_price.set',
        resourceId: id,
        detail: { version: row.version },
        at: now,
      });
    }
    return { version: presentVersion(row), added };
  });
}

/** Takes the operator's price back: the shipped one is the next version, or the end of the price where none ships. */
export async function resetPrice(deps: CatalogDeps, caller: Caller, id: string): Promise<PresentedVersion> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const model = await lockedModel(tx, id);
    const newest = (await findNewestPrices(tx, [id])).get(id);
    if (newest?.origin !== 'operator') {
      throw new AppError(
        'conflict',
        'price_not_overridden',
        'This model has no price of an operator to take back. To take it out of use, PATCH it with {"disabled": true}.',
        { param: 'model' },
      );
    }
    const shipped = model.shipped as ShippedJson | null;
    const price = shipped ? priceFromJson(shipped.price) : undefined;
    const row = await insertPriceVersion(tx, { modelId: id, origin: 'catalog', price, now });
    await recordChange(tx, {
      actor: caller,
      action: 'model_price.reset',
      resourceId: id,
      detail: { version: row.version },
      at: now,
    });
    return presentVersion(row);
  });
}

/** The caller holds the model's lock, and records the change. */
export async function setOperatorPrice(
  tx: Tx,
  modelId: string,
  price: Price,
  now: Date,
): Promise<{ row: ModelPriceRow; added: boolean }> {
  const newest = (await findNewestPrices(tx, [modelId])).get(modelId);
  if (newest?.origin === 'operator' && isSamePrice(priceOf(newest), price)) {
    return { row: newest, added: false };
  }
  return { row: await insertPriceVersion(tx, { modelId, origin: 'operator', price, now }), added: true };
}

export function presentVersion(row: ModelPriceRow): PresentedVersion {
  const price = priceOf(row);
  return {
    version: row.version,
    origin: row.origin,
    price: price ? presentPrice(price) : null,
    created_at: row.created_at.toISOString(),
  };
}
