import {
  isId,
  knownPartOf,
  PRICE_FIELDS,
  type Price,
  priceOf,
  ratesFor,
  TOKEN_CLASSES,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { findNewestPrices, insertPriceVersion, lockedModel } from '../catalog/catalog.service.ts';
import { toFullPrice } from '../catalog/prices.ts';
import { recordChange } from '../changes/changes.service.ts';
import {
  confirmPrices,
  decideChanges,
  type FeedChangeRow,
  findChange,
  findChanges,
  lockChange,
} from './catalogFeed.repository.ts';
import type { FeedChange, FeedChangesQuery } from './catalogFeed.schemas.ts';
import type { CatalogFeedDeps } from './catalogFeed.service.ts';

/** The changes of the feed, newest first. */
export async function listFeedChanges(
  deps: CatalogFeedDeps,
  query: FeedChangesQuery,
): Promise<PageOf<FeedChange>> {
  const request = pageRequest('catalog_feed_changes', query, positionOf(part.id('fch')));
  const filter = { state: query.state, before: request.after?.[0] };
  const rows = await findChanges(deps.db, { ...filter, limit: request.size + 1 });
  return page('catalog_feed_changes', request, rows, (row) => [row.id], toFeedChange);
}

/** Throws a 404 if there is no such change. */
export async function existingChange(deps: CatalogFeedDeps, id: string): Promise<FeedChangeRow> {
  return (isId('fch', id) && (await findChange(deps.db, id))) || raise(changeNotFound());
}

/** Sets the price of a held change, for requests admitted from now on. */
export async function approveChange(deps: CatalogFeedDeps, caller: Caller, id: string): Promise<FeedChange> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const { model_id: modelId } = (await findChange(tx, id)) ?? raise(changeNotFound());
    await lockedModel(tx, modelId);
    const change = heldOf(await lockChange(tx, id));
    const newest = (await findNewestPrices(tx, [modelId])).get(modelId);
    // Undefined if a newer release wrote the price and this one can't read it. Refreshing the feed replaces it.
    const price = priceOf({ ended: false, price: change.price_after });
    if (!price || (newest?.version ?? null) !== change.version_before) {
      throw new AppError(
        'conflict',
        'feed_change_outdated',
        'The price of this model has changed since. Refresh the feed to compare it with the price in force.',
      );
    }
    const { version } = await insertPriceVersion(tx, { modelId, origin: 'feed', price, now });
    await confirmPrices(tx, [{ modelId, version }], now);
    await decideChanges(tx, [id], 'approved', now);
    await recordChange(tx, {
      actor: caller,
      action: 'model_price.feed_change_approved',
      resourceId: modelId,
      detail: { version, change_id: id, held_because: change.held_because },
      at: now,
    });
    return toFeedChange({ ...change, state: 'approved', decided_at: now });
  });
}

/** The price in force stays, until the feed states yet another. */
export async function rejectChange(deps: CatalogFeedDeps, caller: Caller, id: string): Promise<FeedChange> {
  const now = deps.now();
  return await deps.db.transaction().execute(async (tx) => {
    const change = heldOf(await lockChange(tx, id));
    await decideChanges(tx, [id], 'rejected', now);
    await recordAudit(tx, {
      actor: caller,
      action: 'model_price.feed_change_rejected',
      resourceId: change.model_id,
      detail: { change_id: id, held_because: change.held_because },
      at: now,
    });
    return toFeedChange({ ...change, state: 'rejected', decided_at: now });
  });
}

function heldOf(change: FeedChangeRow | undefined): FeedChangeRow {
  if (!change) throw changeNotFound();
  if (change.state === 'held') return change;
  throw new AppError(
    'conflict',
    'feed_change_not_held',
    `This change does not wait for a decision: it is ${change.state}.`,
  );
}

function changeNotFound(): AppError {
  return new AppError(
    'not_found',
    'feed_change_not_found',
    'The feed has no change with this id. GET /api/v1/catalog/feed/changes lists its changes.',
    { param: 'change_id' },
  );
}

export function toFeedChange(row: FeedChangeRow): FeedChange {
  const before = row.price_before === null ? undefined : knownPartOf(row.price_before);
  const after = knownPartOf(row.price_after);
  return {
    id: row.id,
    model: row.model_id,
    state: row.state,
    adds_model: row.adds_model,
    held_because: row.held_because,
    price_before: before ? toFullPrice(before) : null,
    price_after: toFullPrice(after),
    changed_fields: changedFields(before, after),
    created_at: row.created_at.toISOString(),
    decided_at: row.decided_at?.toISOString() ?? null,
  };
}

/** The fields of the list price that differ at any length. */
function changedFields(before: Price | undefined, after: Price): string[] {
  if (!before)
    return TOKEN_CLASSES.filter((name) => after[name] !== undefined).map((name) => PRICE_FIELDS[name]);
  const lengths = [0, ...[...before.tiers, ...after.tiers].map((tier) => tier.aboveInputTokens + 1)];
  return TOKEN_CLASSES.filter((name) =>
    lengths.some((tokens) => ratesFor(tokens, before)[name] !== ratesFor(tokens, after)[name]),
  ).map((name) => PRICE_FIELDS[name]);
}
