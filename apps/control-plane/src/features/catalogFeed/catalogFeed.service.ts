import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Database } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { recordWebhookEvents } from '@weighbridge/ledger';
import { applyFeed, type FeedSummary } from './applyFeed.service.ts';
import {
  claimFetch,
  configureFeed,
  countHeldChanges,
  type FeedRow,
  findFeed,
  lockFeed,
  updateFeed,
} from './catalogFeed.repository.ts';
import type { CatalogFeed } from './catalogFeed.schemas.ts';
import { FETCH_LIMITS, type FeedSource, fetchFeed } from './fetchFeed.ts';
import { FeedError } from './readFeed.ts';

export interface CatalogFeedDeps {
  readonly db: Database;
  readonly now: () => Date;
  /** Undefined: nothing is fetched. */
  readonly feedSource: FeedSource | undefined;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Longer than a fetch takes: another control plane tries again if this one ends meanwhile. */
const CLAIM_MS = 10 * MINUTE_MS;
const MAX_ERROR = 500;
const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** Whether a fetch is due, which this control plane then has to make. */
export async function takeDueFetch(deps: CatalogFeedDeps, source: FeedSource): Promise<boolean> {
  const now = deps.now();
  await configureFeed(deps.db, { ...identityOf(source), now });
  return await claimFetch(deps.db, now, new Date(now.getTime() + CLAIM_MS));
}

/** Fetches the feed and applies it. Resolves with the error if it failed, which the feed's row then has. */
export async function fetchAndApply(
  deps: CatalogFeedDeps,
  source: FeedSource,
  stopping?: AbortSignal,
): Promise<{ summary: FeedSummary } | { error: string }> {
  await configureFeed(deps.db, { ...identityOf(source), now: deps.now() });
  try {
    const before = (await findFeed(deps.db)) ?? raise(new Error('the feed has no row'));
    const fetched = await fetchFeed(source, before.content ? before.etag : null, {
      ...FETCH_LIMITS,
      stopping,
    });
    const content = fetched.text === undefined ? before.content : await compress(fetched.text);
    const text = fetched.text ?? String(await decompress(before.content ?? raise(new Error('no content'))));
    return {
      summary: await apply(deps, text, { content, etag: fetched.etag, fresh: fetched.text !== undefined }),
    };
  } catch (error) {
    // A stop of this process says nothing of the feed: the next start fetches it.
    if (!(error instanceof FeedError) || stopping?.aborted) throw error;
    await recordFailure(deps, error.message.slice(0, MAX_ERROR));
    return { error: error.message };
  }
}

async function apply(
  { db, now }: CatalogFeedDeps,
  text: string,
  document: { readonly content: Buffer | null; readonly etag: string | null; readonly fresh: boolean },
): Promise<FeedSummary> {
  const at = now();
  return await db.transaction().execute(async (tx) => {
    await lockFeed(tx);
    const summary = await applyFeed(tx, text, at);
    await updateFeed(tx, {
      content: document.content,
      etag: document.etag,
      fetched_at: at,
      succeeded_at: at,
      failing_since: null,
      error: null,
      result: document.fresh ? 'applied' : 'not_modified',
      summary: JSON.stringify(summary),
      // Not at the same time of each day, nor all deployments at once.
      next_fetch_at: new Date(at.getTime() + 23 * HOUR_MS + Math.random() * 2 * HOUR_MS),
    });
    return summary;
  });
}

async function recordFailure({ db, now }: CatalogFeedDeps, error: string): Promise<void> {
  const at = now();
  await db.transaction().execute(async (tx) => {
    const row = await findFeed(tx);
    const since = row?.failing_since ?? at;
    await updateFeed(tx, {
      fetched_at: at,
      result: 'failed',
      error,
      failing_since: since,
      next_fetch_at: new Date(at.getTime() + HOUR_MS + Math.random() * 10 * MINUTE_MS),
    });
    const data = { reason: error, feed: row?.url ?? null, since: since.toISOString() };
    const onceKey = `${row?.url_sha256 ?? ''}/${since.getTime()}`;
    await recordWebhookEvents(tx, [{ type: 'feed.refused', onceKey, data }], at);
  });
}

/** What is known of the feed. */
export async function readFeedState(deps: CatalogFeedDeps): Promise<CatalogFeed> {
  const row = await findFeed(deps.db);
  const held = row ? await countHeldChanges(deps.db) : 0;
  return toCatalogFeed(deps, row, held);
}

/** Fetches the feed now, whenever the next fetch is due. */
export async function refreshFeed(deps: CatalogFeedDeps): Promise<CatalogFeed> {
  const source = deps.feedSource;
  if (!source) {
    throw new AppError(
      'conflict',
      'catalog_feed_off',
      'No feed of prices is configured. Set CATALOG_FEED_URL, and restart the control plane.',
    );
  }
  await fetchAndApply(deps, source);
  return await readFeedState(deps);
}

function toCatalogFeed(
  { feedSource, now }: CatalogFeedDeps,
  row: FeedRow | undefined,
  held: number,
): CatalogFeed {
  const summary = row?.summary as Partial<FeedSummary> | undefined;
  const since = row?.succeeded_at;
  return {
    state: stateOf(feedSource, row),
    url: feedSource ? identityOf(feedSource).url : null,
    format: summary?.format ?? null,
    last_fetch_at: iso(row?.fetched_at),
    last_result: row?.result ?? null,
    error: row?.error ?? null,
    last_success_at: iso(since),
    age_seconds: since ? Math.max(0, Math.floor((now().getTime() - since.getTime()) / 1_000)) : null,
    failing_since: iso(row?.failing_since),
    next_fetch_at: feedSource ? iso(row?.next_fetch_at) : null,
    entries: summary?.entries ?? 0,
    confirmed: summary?.confirmed ?? 0,
    applied: summary?.applied ?? 0,
    added: summary?.added ?? 0,
    left: summary?.left ?? 0,
    operator_prices: summary?.operator_prices ?? 0,
    refused: summary?.refused ?? 0,
    refused_examples: [...(summary?.refused_examples ?? [])],
    held_changes: held,
  };
}

function stateOf(source: FeedSource | undefined, row: FeedRow | undefined): CatalogFeed['state'] {
  if (!source) return 'off';
  if (!row?.result) return 'waiting';
  return row.result === 'failed' ? 'failing' : 'ok';
}

function iso(time: Date | null | undefined): string | null {
  return time?.toISOString() ?? null;
}

/** A query may have a secret: it is not shown, and only its hash is stored. */
function identityOf({ url }: FeedSource): { url: string; hash: string } {
  return {
    url: `${url.origin}${url.pathname}${url.search ? '?…' : ''}`,
    hash: createHash('sha256').update(url.href).digest('hex'),
  };
}
