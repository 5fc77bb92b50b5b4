import type { Database } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordChange } from '../changes/changes.service.ts';
import { benchmarkScores } from './benchmarkScores.ts';
import {
  findModels,
  findNewestPrices,
  insertModel,
  insertPriceVersion,
  lockModel,
  type ModelPriceRow,
  type ModelRow,
  updateModel,
} from './catalog.repository.ts';
import { type CatalogDeps, existingModel, lockedModel } from './catalog.service.ts';
import {
  changedFacts,
  factsOfEntry,
  type ModelChanges,
  type ModelEntryInput,
  newModelId,
  type ShippedJson,
} from './catalog.ts';
import { differingFacts, restoreShipped } from './catalogImport.service.ts';
import { type PresentedVersion, presentVersion, setOperatorPrice } from './catalogPrices.service.ts';
import { priceFrom } from './prices.ts';

/** An entry of the catalog as operators see it. */
export interface PresentedEntry {
  readonly model: string;
  readonly provider: string;
  readonly upstream_name: string;
  readonly origin: 'catalog' | 'operator';
  readonly overridden: string[];
  readonly disabled: boolean;
  readonly context_window: number;
  readonly max_output_tokens: number | null;
  readonly capabilities: string[];
  readonly benchmark_scores: Record<string, number>;
  readonly deprecated_at: string | null;
  /** Null where the model has none: then nobody can use it. */
  readonly price: PresentedVersion | null;
  readonly updated_at: string;
}

export interface CatalogQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly provider?: string;
  readonly name_contains?: string;
  readonly priced?: 'true' | 'false';
  readonly disabled?: 'true' | 'false';
}

export async function listCatalog(deps: CatalogDeps, query: CatalogQuery): Promise<PageOf<PresentedEntry>> {
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
    (row) => present(row, prices.get(row.id)),
  );
}

export async function readEntry(deps: CatalogDeps, id: string): Promise<PresentedEntry> {
  return await presentWithPrice(deps.db, await existingModel(deps.db, id));
}

/** Makes the entry what the operator says, whatever it was. Says whether there was none before. */
export async function putEntry(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: ModelEntryInput,
): Promise<{ entry: PresentedEntry; created: boolean }> {
  const now = deps.now();
  const parsed = newModelId(id);
  const facts = factsOfEntry(parsed, input);
  const price = input.price && priceFrom(input.price);
  const disabled = input.disabled ?? false;
  return await deps.db.transaction().execute(async (tx) => {
    const entry = { id, provider: parsed.provider, origin: 'operator', disabled, updated_at: now } as const;
    const inserted = await insertModel(tx, entry, facts, null);
    const before = inserted ?? (await lockModel(tx, id)) ?? raise(new Error('a model is never removed'));
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
    return { entry: await presentWithPrice(tx, await existingModel(tx, id)), created };
  });
}

export async function changeEntry(
  deps: CatalogDeps,
  caller: Caller,
  id: string,
  input: ModelChanges,
): Promise<PresentedEntry> {
  const now = deps.now();
  const facts = changedFacts(input);
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockedModel(tx, id);
    const differing = differingFacts(before, facts);
    const disabled = input.disabled ?? before.disabled;
    const changed = [...differing, ...(disabled === before.disabled ? [] : ['disabled'])];
    if (changed.length === 0) return await presentWithPrice(tx, before);
    // Only what is shipped can be overridden: an entry of the operator's own simply changes.
    const overridden =
      before.origin === 'catalog' ? [...new Set([...before.overridden, ...differing])] : before.overridden;
    const after = await updateModel(tx, id, { overridden, disabled, updated_at: now }, facts);
    await recordChange(tx, {
      actor: caller,
      action: 'model.updated',
      resourceId: id,
      detail: { changed },
      at: now,
    });
    return await presentWithPrice(tx, after);
  });
}

/**
 * Takes back what an operator said of a model: a shipped one is again what the release says, one of the operator's own is
 * gone, with its price. What the ledger says of it stays, and its price versions are never counted anew.
 */
export async function deleteEntry(deps: CatalogDeps, caller: Caller, id: string): Promise<PresentedEntry> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const before = await lockedModel(tx, id);
    const shipped = before.shipped as ShippedJson | null;
    if (shipped && before.origin === 'catalog' && before.overridden.length === 0 && !before.disabled) {
      throw new AppError(
        'conflict',
        'model_is_shipped',
        'This model ships with the release and can not be deleted. Disable it instead: PATCH it with {"disabled": true}.',
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
    return await presentWithPrice(tx, after);
  });
}

async function presentWithPrice(db: Database, row: ModelRow): Promise<PresentedEntry> {
  return present(row, (await findNewestPrices(db, [row.id])).get(row.id));
}

function present(row: ModelRow, price: ModelPriceRow | undefined): PresentedEntry {
  return {
    model: row.id,
    provider: row.provider,
    upstream_name: row.upstream_name,
    origin: row.origin,
    overridden: row.overridden,
    disabled: row.disabled,
    context_window: row.context_window,
    max_output_tokens: row.max_output_tokens,
    capabilities: row.capabilities,
    benchmark_scores: benchmarkScores(row.benchmark_scores as Record<string, number>),
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    price: price && !price.ended ? presentVersion(price) : null,
    updated_at: row.updated_at.toISOString(),
  };
}
