import type { Tx } from '@weighbridge/database';
import { isSamePrice, type Price, priceOf, priceOfDocument } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  findNewestPrices,
  findPriceVersions,
  insertPriceVersion,
  type ModelPriceRow,
} from './catalog.repository.ts';
import { type CatalogDeps, existingModel, lockedModel } from './catalog.service.ts';
import type { ShippedJson } from './catalog.ts';
import { readWithPrice, toCatalogPrice } from './catalogModel.ts';
import type { CatalogPrice, NewPrice } from './prices.schemas.ts';
import { parsePrice } from './prices.ts';

/** The versions of a model's price, newest first. */
export async function listPrices(
  deps: CatalogDeps,
  id: string,
  query: { readonly page_size?: string; readonly page_token?: string },
): Promise<PageOf<CatalogPrice>> {
  const list = `catalog_prices ${id}`;
  const request = pageRequest(list, query, positionOf(part.integer));
  const { id: modelId } = await existingModel(deps.db, id);
  const before = request.after && Number(request.after[0]);
  const rows = await findPriceVersions(deps.db, { modelId, before, limit: request.size + 1 });
  return page(list, request, rows, (row) => [String(row.version)], toCatalogPrice);
}

/** Sets the operator's price for requests admitted from now on. The same price changes nothing. */
export async function setPrice(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: NewPrice,
  assertMatch: AssertMatch,
): Promise<{ version: CatalogPrice; added: boolean }> {
  const now = deps.now();
  const price = parsePrice(input);
  return await deps.db.transaction().execute(async (tx) => {
    assertMatch(await readWithPrice(tx, await lockedModel(tx, id)));
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
    return { version: toCatalogPrice(row), added };
  });
}

/** Resets the price to the shipped one, as a new version. A model that does not ship then has no price. */
export async function resetPrice(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<CatalogPrice> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const model = await lockedModel(tx, id);
    assertMatch(await readWithPrice(tx, model));
    const newest = (await findNewestPrices(tx, [id])).get(id);
    if (!newest || newest.origin === 'catalog') {
      throw new AppError(
        'conflict',
        'price_not_overridden',
        'Neither an operator nor the feed set the price of this model, so there is nothing to reset. To disable the model, PATCH it with {"disabled": true}.',
        { param: 'model' },
      );
    }
    const shipped = model.shipped as ShippedJson | null;
    const price = shipped?.price ? priceOfDocument(shipped.price) : undefined;
    const row = await insertPriceVersion(tx, { modelId: id, origin: 'catalog', price, now });
    await recordChange(tx, {
      actor: caller,
      action: 'model_price.reset',
      resourceId: id,
      detail: { version: row.version },
      at: now,
    });
    return toCatalogPrice(row);
  });
}

/** Adds a version unless the operator's price is the same. The caller holds the model's lock and records the change. */
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
