import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import type { AssertMatch } from '../../shared/preconditions.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  findModels,
  findNewestPrices,
  insertModel,
  insertPriceVersion,
  lockModel,
  updateModel,
} from './catalog.repository.ts';
import type { CatalogModel, CatalogModelChanges, CatalogQuery, NewCatalogModel } from './catalog.schemas.ts';
import { type CatalogDeps, existingModel, lockedModel } from './catalog.service.ts';
import { assertModelId, changedFacts, newFacts, parseNewModelId, type ShippedJson } from './catalog.ts';
import { differingFacts, restoreShipped } from './catalogImport.service.ts';
import { readWithPrice, toCatalogModel } from './catalogModel.ts';
import { setOperatorPrice } from './catalogPrices.service.ts';
import { assertNoConflict } from './nameConflicts.service.ts';
import { parsePrice } from './prices.ts';

export async function listCatalog(deps: CatalogDeps, query: CatalogQuery): Promise<PageOf<CatalogModel>> {
  const request = pageRequest('catalog_models', query, positionOf(part.text));
  const filter = {
    provider: query.provider,
    nameContains: query.name_contains,
    priced: query.priced && query.priced === 'true',
    disabled: query.disabled && query.disabled === 'true',
  };
  const after = request.after?.[0] ?? '';
  const rows = await findModels(deps.db, { filter, after, limit: request.size + 1 });
  const prices = await findNewestPrices(
    deps.db,
    rows.map(({ id }) => id),
  );
  return page(
    'catalog_models',
    request,
    rows,
    (row) => [row.id],
    (row) => toCatalogModel(row, prices.get(row.id)),
  );
}

export async function readEntry(deps: CatalogDeps, id: string): Promise<CatalogModel> {
  return await readWithPrice(deps.db, await existingModel(deps.db, id));
}

/** Creates or replaces an operator's entry, and returns whether it was created. */
export async function putEntry(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: NewCatalogModel,
  assertMatch: AssertMatch,
): Promise<{ entry: CatalogModel; created: boolean }> {
  const now = deps.now();
  const parsed = parseNewModelId(id);
  const price = input.price && parsePrice(input.price);
  const disabled = input.disabled ?? false;
  return await deps.db.transaction().execute(async (tx) => {
    const known = await lockModel(tx, id);
    assertMatch(known && known.deleted_at === null ? await readWithPrice(tx, known) : undefined);
    const facts = newFacts(parsed, input, (known?.shipped as ShippedJson | null)?.names);
    await assertNoConflict(tx, id, facts, known);
    const entry = { id, provider: parsed.provider, origin: 'operator', disabled, updated_at: now } as const;
    const inserted = await insertModel(tx, entry, facts, null);
    const before =
      inserted ?? (await lockModel(tx, id)) ?? raise(new Error('rows of models are never deleted'));
    // Another request created it at the same time.
    if (!known && !inserted) assertMatch(await readWithPrice(tx, before));
    const created = inserted !== undefined || before.deleted_at !== null;
    const differs =
      created ||
      before.origin !== 'operator' ||
      before.disabled !== disabled ||
      differingFacts(before, facts).length > 0;
    if (!inserted && differs) {
      const changes = { origin: 'operator', overridden: [], disabled, deleted_at: null } as const;
      await updateModel(tx, id, { ...changes, overridden: [], updated_at: now }, facts);
    }
    const newPrice = price && (await setOperatorPrice(tx, id, price, now));
    if (differs || newPrice?.added) {
      await recordChange(tx, {
        actor: caller,
        action: created ? 'model.created' : 'model.replaced',
        resourceId: id,
        detail: newPrice?.added ? { price_version: newPrice.row.version } : {},
        at: now,
      });
    }
    return { entry: await readWithPrice(tx, await existingModel(tx, id)), created };
  });
}

export async function changeEntry(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: CatalogModelChanges,
  assertMatch: AssertMatch,
): Promise<CatalogModel> {
  const now = deps.now();
  const facts = changedFacts(assertModelId(id), input);
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockedModel(tx, id);
    assertMatch(await readWithPrice(tx, before));
    await assertNoConflict(tx, id, { ...before, ...facts }, before);
    const differing = differingFacts(before, facts);
    const disabled = input.disabled ?? before.disabled;
    const changed = [...differing, ...(disabled === before.disabled ? [] : ['disabled'])];
    if (changed.length === 0) return await readWithPrice(tx, before);
    // An operator's own entry has nothing to override.
    const overridden =
      before.origin === 'operator' ? before.overridden : [...new Set([...before.overridden, ...differing])];
    const after = await updateModel(tx, id, { overridden, disabled, updated_at: now }, facts);
    await recordChange(tx, {
      actor: caller,
      action: 'model.updated',
      resourceId: id,
      detail: { changed },
      isReduction: disabled,
      at: now,
    });
    return await readWithPrice(tx, after);
  });
}

/**
 * Resets a shipped model to the release, or deletes an operator's entry and its price. Entries in the ledger stay, and
 * the numbers of price versions are never used again.
 */
export async function deleteEntry(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  assertMatch: AssertMatch,
): Promise<CatalogModel> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockedModel(tx, id);
    assertMatch(await readWithPrice(tx, before));
    const shipped = before.shipped as ShippedJson | null;
    if (shipped && before.origin === 'catalog' && before.overridden.length === 0 && !before.disabled) {
      throw new AppError(
        'conflict',
        'model_is_shipped',
        'This model ships with the release and cannot be deleted. To disable it, PATCH it with {"disabled": true}.',
        { param: 'model' },
      );
    }
    const after = shipped
      ? await restoreShipped(tx, id, shipped, now)
      : await updateModel(tx, id, { deleted_at: now, updated_at: now });
    const newest = (await findNewestPrices(tx, [id])).get(id);
    if (!shipped && newest && !newest.ended) {
      await insertPriceVersion(tx, { modelId: id, origin: 'catalog', price: undefined, now });
    }
    await recordChange(tx, {
      actor: caller,
      action: shipped ? 'model.restored' : 'model.deleted',
      resourceId: id,
      at: now,
    });
    return await readWithPrice(tx, after);
  });
}
