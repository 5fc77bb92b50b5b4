import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '@weighbridge/database';
import { isSamePrice, priceOf } from '@weighbridge/domain';
import { recordChange } from '../changes/changes.service.ts';
import {
  findNewestPrices,
  insertFirstPrices,
  insertModels,
  insertPriceVersion,
  lockModels,
  type ModelPriceRow,
  type ModelRow,
  updateModel,
  updateShippedDates,
} from './catalog.repository.ts';
import { FACT_NAMES, type ModelNameFacts, type ShippedJson, shippedFacts } from './catalog.ts';
import { type ShippedModel, shippedJson } from './shippedCatalog.ts';

/** Updates the catalog to the shipped models, and tells the proxies if that changed it. */
export async function importShipped(
  tx: Tx,
  models: readonly ShippedModel[],
  now: Date,
): Promise<{ changedModels: number; newPrices: number }> {
  const imported = await importCatalog(tx, models, now);
  if (imported.changedModels + imported.newPrices > 0) {
    await recordChange(tx, {
      actor: { principalId: 'bootstrap', identity: null },
      action: 'catalog.imported',
      resourceId: 'catalog',
      detail: imported,
      at: now,
    });
  }
  return imported;
}

/**
 * Updates the catalog to the shipped models. Entries, overrides and prices of an operator stay. A shipped price that
 * changed becomes a new version.
 */
export async function importCatalog(
  tx: Tx,
  models: readonly ShippedModel[],
  now: Date,
): Promise<{ changedModels: number; newPrices: number }> {
  const known = new Map((await lockModels(tx)).map((row) => [row.id, row]));
  const prices = await findNewestPrices(tx, [...known.keys()]);
  const added = await addModels(
    tx,
    models.filter(({ id }) => !known.has(id)),
    now,
  );
  let { changedModels, newPrices } = added;
  for (const model of models) {
    const row = known.get(model.id);
    if (!row) continue;
    if (await updateFromRelease(tx, row, model, now)) changedModels++;
    if (!needsShippedPrice(prices.get(model.id), model, row.feed_confirmed_at)) continue;
    const price = model.price ?? undefined;
    await insertPriceVersion(tx, { modelId: model.id, origin: 'catalog', price, now });
    newPrices++;
  }
  await updateShippedDates(tx, models);
  return { changedModels, newPrices };
}

/** Adds models that the catalog has never had: on the first start all, so in one statement each. */
async function addModels(
  tx: Tx,
  models: readonly ShippedModel[],
  now: Date,
): Promise<{ changedModels: number; newPrices: number }> {
  const entries = models.map((model) => {
    const { id, provider } = model;
    const shipped = shippedJson(model);
    const row = { id, provider, origin: 'catalog', disabled: false, updated_at: now } as const;
    return { row, facts: shippedFacts(shipped), shipped };
  });
  // One that an operator creates at the same moment is left out, and follows at the next start.
  const inserted = new Set(await insertModels(tx, entries));
  const priced = models.flatMap(({ id, price }) =>
    price && inserted.has(id) ? [{ modelId: id, price }] : [],
  );
  await insertFirstPrices(tx, priced, now);
  return { changedModels: inserted.size, newPrices: priced.length };
}

async function updateFromRelease(tx: Tx, row: ModelRow, model: ShippedModel, now: Date): Promise<boolean> {
  const shipped = shippedJson(model);
  if (isDeepStrictEqual(row.shipped, shipped)) return false;
  await updateModel(tx, row.id, { shipped: JSON.stringify(shipped), updated_at: now });
  if (row.deleted_at) await restoreShipped(tx, row.id, shipped, now);
  else if (row.origin !== 'operator') {
    const facts = Object.entries(shippedFacts(shipped)).filter(([name]) => !row.overridden.includes(name));
    // What the feed had added is the release's from now on.
    await updateModel(tx, row.id, { origin: 'catalog', updated_at: now }, Object.fromEntries(facts));
  } else await updateModel(tx, row.id, { updated_at: now }, namesOfRelease(row, shipped));
  return true;
}

/** The shipped names of an operator's entry, where the operator gave it no others. */
function namesOfRelease(row: ModelRow, { names }: ShippedJson): Partial<ModelNameFacts> {
  const before = (row.shipped as ShippedJson | null)?.names ?? { other_names: [], own: false };
  return {
    ...(names &&
      isDeepStrictEqual(row.other_names, before.other_names) && { other_names: names.other_names }),
    ...(names && row.own === before.own && { own: names.own }),
  };
}

/** Resets a model to the release, without its price. */
export async function restoreShipped(tx: Tx, id: string, shipped: ShippedJson, now: Date): Promise<ModelRow> {
  const changes = { origin: 'catalog', overridden: [], disabled: false, deleted_at: null } as const;
  return await updateModel(tx, id, { ...changes, overridden: [], updated_at: now }, shippedFacts(shipped));
}

/** The names of the facts that differ from the row. */
export function differingFacts(row: ModelRow, facts: object): string[] {
  const values = facts as Record<string, unknown>;
  return FACT_NAMES.filter((name) => name in values && !isDeepStrictEqual(row[name], values[name]));
}

/**
 * Whether the shipped price has to become a new version. An operator's price stays until it is reset; that of the feed, until a
 * release has a later one.
 */
function needsShippedPrice(
  newest: ModelPriceRow | undefined,
  { price, pricedAt, effectiveFrom }: ShippedModel,
  feedConfirmedAt: Date | null,
): boolean {
  if (newest?.origin === 'operator') return false;
  if (newest?.origin === 'feed') {
    const stated = effectiveFrom && effectiveFrom > pricedAt ? effectiveFrom : pricedAt;
    if (!price || stated <= (feedConfirmedAt ?? newest.created_at)) return false;
  }
  const current = newest && priceOf(newest);
  return price ? !isSamePrice(current, price) : current !== undefined;
}
