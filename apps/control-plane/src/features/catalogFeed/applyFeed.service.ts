import { isDeepStrictEqual } from 'node:util';
import type { Tx } from '@weighbridge/database';
import { isSamePrice, knownPartOf, newId, type Price, priceDocument, priceOf } from '@weighbridge/domain';
import {
  findNewestPrices,
  findReviewedPrices,
  insertPriceVersion,
  lockModels,
  type ModelPriceRow,
  type ModelRow,
} from '../catalog/catalog.service.ts';
import type { ShippedJson } from '../catalog/catalog.ts';
import { type Change, recordChanges } from '../changes/changes.service.ts';
import { addModels, FEED_ACTOR } from './addModels.service.ts';
import {
  confirmPrices,
  decideChanges,
  type FeedChangeRow,
  findHeldChanges,
  findLastDecisions,
  insertFeedChanges,
  pruneFeedChanges,
} from './catalogFeed.repository.ts';
import { heldBecause } from './heldBecause.ts';
import { firstPrice, mergedPrice } from './mergedPrice.ts';
import { knownProviders, mayBeAdded, newModels } from './newModels.ts';
import { type FeedPrices, readFeed } from './readFeed.ts';

/** What a document of the feed meant for the catalog. */
export interface FeedSummary {
  readonly format: FeedPrices['format'];
  /** Entries of the feed, of any provider. */
  readonly entries: number;
  /** Models of the catalog that have the price that the feed states, also by this fetch. */
  readonly confirmed: number;
  /** Prices that changed or came with new models. */
  readonly applied: number;
  readonly held: number;
  /** Models that the catalog lacked and has now. */
  readonly added: number;
  /** Models that it still lacks because of the limits. */
  readonly left: number;
  /** Models whose price an operator set, which the feed never changes. */
  readonly operator_prices: number;
  /** Models of the catalog whose entry in the feed can't be used: how many, and examples. */
  readonly refused: number;
  readonly refused_examples: readonly { readonly model: string; readonly reason: string }[];
}

const MAX_EXAMPLES = 20;
const KEPT_CHANGES_MS = 400 * 24 * 3_600_000;

type Outcome =
  | { readonly kind: 'confirmed'; readonly version: number }
  | { readonly kind: 'operator' | 'rejected' | 'unknown' }
  | { readonly kind: 'held'; readonly because: string; readonly price: Price; readonly isNew?: true }
  | { readonly kind: 'applied'; readonly price: Price; readonly isNew?: true };

/**
 * Applies a document of the feed to the catalog, as new versions of prices; what needs a person is held. Throws a `FeedError`
 * before it changes anything if the document is refused as a whole. The caller holds the lock of the feed.
 */
export async function applyFeed(tx: Tx, text: string, now: Date): Promise<FeedSummary> {
  const all = await lockModels(tx);
  const models = all.filter(isOfferedByItsName);
  const known = new Set(all.map(({ id }) => id));
  const providers = knownProviders(all);
  const mayAdd = (id: string) => !known.has(id) && mayBeAdded(id, providers);
  const feed = readFeed(text, new Set(models.map(({ id }) => id)), now, mayAdd);
  const newest = await findNewestPrices(tx, [...known]);
  const reviewed = await findReviewedPrices(tx);
  const decisions = new Map((await findLastDecisions(tx)).map((row) => [row.model_id, row]));
  const outcomes = new Map<string, Outcome>();
  for (const { id, shipped } of models) {
    const stated = feed.prices.get(id);
    if (!stated) continue;
    const facts = {
      isOurs: (shipped as ShippedJson | null)?.own_price === true,
      decision: decisions.get(id),
    };
    outcomes.set(id, outcomeOf(stated, newest.get(id), reviewed.get(id), facts));
  }
  const { added, left } = newModels(feed.offered, all, newest);
  await addModels(tx, added, now);
  for (const { id, price, heldBecause: because } of added) {
    outcomes.set(
      id,
      because === undefined
        ? { kind: 'applied', price, isNew: true }
        : { kind: 'held', because, price, isNew: true },
    );
  }
  const confirmed = [...(await applyAll(tx, outcomes, newest, now)), ...confirmedBy(outcomes)];
  await confirmPrices(tx, confirmed, now);
  await holdAll(tx, outcomes, newest, now);
  await pruneFeedChanges(tx, new Date(now.getTime() - KEPT_CHANGES_MS));
  return { ...summaryOf(feed, outcomes, confirmed.length), added: added.length, left };
}

/** Not one that an operator sends to another name at the vendor: the feed's price is not of that. */
function isOfferedByItsName({ id, provider, upstream_name, deleted_at }: ModelRow): boolean {
  return deleted_at === null && id === `${provider}/${upstream_name}`;
}

function outcomeOf(
  stated: Parameters<typeof mergedPrice>[1],
  newest: ModelPriceRow | undefined,
  reviewed: ModelPriceRow | undefined,
  { isOurs, decision }: { readonly isOurs: boolean; readonly decision: FeedChangeRow | undefined },
): Outcome {
  if (newest?.origin === 'operator') return { kind: 'operator' };
  const current = newest && priceOf(newest);
  const price = current ? mergedPrice(current, stated) : firstPrice(stated);
  if (!price) return { kind: 'unknown' };
  if (newest && isSamePrice(current, price)) return { kind: 'confirmed', version: newest.version };
  const because =
    heldReason(current, reviewed && priceOf(reviewed), price) ?? (isOurs ? OUR_FACTS : undefined);
  if (because === undefined) return { kind: 'applied', price };
  const isRejected = decision?.state === 'rejected' && isSamePrice(knownPartOf(decision.price_after), price);
  return isRejected ? { kind: 'rejected' } : { kind: 'held', because, price };
}

/** Our own facts may correct what lists say. */
const OUR_FACTS = "the release has a price of this model from the vendor's own documents";

/** Compared with the price in force, and with the last that was reviewed: many small steps are one large one. */
function heldReason(
  current: Price | undefined,
  reviewed: Price | undefined,
  price: Price,
): string | undefined {
  if (!current) return 'the model had no price';
  const because = heldBecause(current, price);
  if (because !== undefined || !reviewed) return because;
  const since = heldBecause(reviewed, price);
  return since && `${since}, compared with the last price that was reviewed`;
}

function confirmedBy(outcomes: ReadonlyMap<string, Outcome>): { modelId: string; version: number }[] {
  return [...outcomes].flatMap(([modelId, outcome]) =>
    outcome.kind === 'confirmed' ? [{ modelId, version: outcome.version }] : [],
  );
}

async function applyAll(
  tx: Tx,
  outcomes: ReadonlyMap<string, Outcome>,
  newest: ReadonlyMap<string, ModelPriceRow>,
  now: Date,
): Promise<{ modelId: string; version: number }[]> {
  const applied: { modelId: string; version: number }[] = [];
  const rows: Parameters<typeof insertFeedChanges>[1][number][] = [];
  const changes: Change[] = [];
  for (const [modelId, outcome] of outcomes) {
    if (outcome.kind !== 'applied') continue;
    const { price } = outcome;
    const { version } = await insertPriceVersion(tx, {
      modelId,
      origin: 'feed',
      price,
      now,
      reviewed: false,
    });
    applied.push({ modelId, version });
    const row = changeRow(modelId, newest.get(modelId), outcome, now);
    rows.push({ ...row, state: 'applied', decided_at: now });
    changes.push({
      actor: FEED_ACTOR,
      action: 'model_price.set_by_feed',
      resourceId: modelId,
      detail: { version, version_before: row.version_before, change_id: row.id },
      at: now,
    });
  }
  await insertFeedChanges(tx, rows);
  await recordChanges(tx, changes);
  return applied;
}

/** Holds what needs a person. What was held and is not stated any more is withdrawn. */
async function holdAll(
  tx: Tx,
  outcomes: ReadonlyMap<string, Outcome>,
  newest: ReadonlyMap<string, ModelPriceRow>,
  now: Date,
): Promise<void> {
  const held = new Map((await findHeldChanges(tx)).map((row) => [row.model_id, row]));
  const added: Parameters<typeof insertFeedChanges>[1][number][] = [];
  for (const [modelId, outcome] of outcomes) {
    if (outcome.kind !== 'held') continue;
    const row = changeRow(modelId, newest.get(modelId), outcome, now);
    const before = held.get(modelId);
    const isKept =
      before?.version_before === row.version_before &&
      isDeepStrictEqual(before.price_after, JSON.parse(row.price_after));
    if (isKept) held.delete(modelId);
    else added.push({ ...row, state: 'held', held_because: outcome.because });
  }
  await decideChanges(
    tx,
    [...held.values()].map(({ id }) => id),
    'withdrawn',
    now,
  );
  await insertFeedChanges(tx, added);
}

function changeRow(
  modelId: string,
  newest: ModelPriceRow | undefined,
  { price, isNew = false }: { readonly price: Price; readonly isNew?: boolean },
  now: Date,
) {
  const before = newest && priceOf(newest);
  return {
    id: newId('fch'),
    model_id: modelId,
    version_before: newest?.version ?? null,
    price_before: before ? JSON.stringify(priceDocument(before)) : null,
    price_after: JSON.stringify(priceDocument(price)),
    adds_model: isNew,
    created_at: now,
  };
}

function summaryOf(
  { format, entries, refused }: FeedPrices,
  outcomes: ReadonlyMap<string, Outcome>,
  confirmed: number,
): Omit<FeedSummary, 'added' | 'left'> {
  const count = (kind: Outcome['kind']) => [...outcomes.values()].filter((one) => one.kind === kind).length;
  return {
    format,
    entries,
    confirmed,
    applied: count('applied'),
    held: count('held'),
    operator_prices: count('operator'),
    refused: refused.length,
    refused_examples: refused.slice(0, MAX_EXAMPLES),
  };
}
