import type { Logger, Metrics, ServiceContext } from '@weighbridge/runtime';
import { sql } from 'kysely';
import { repeat } from '../../shared/repeat.ts';
import { isOfModel } from '../../shared/storedPrice.ts';
import { countHeldChanges, findFeed } from './catalogFeed.repository.ts';
import { type CatalogFeedDeps, fetchAndApply, takeDueFetch } from './catalogFeed.service.ts';

const CHECK_INTERVAL_MS = 30_000;

type Deps = CatalogFeedDeps & { readonly logger: Logger; readonly metrics: Metrics };

/** Fetches the feed when it is due, if no other control plane did, and reads for the metrics how old prices are. */
export function watchFeed(deps: Deps, context: Pick<ServiceContext, 'onShutdown'>): void {
  let ages: PriceAges = { byOrigin: [], feed: undefined };
  exportAges(deps, () => ages);
  const run = async (stopping: AbortSignal): Promise<void> => {
    ages = await readAges(deps);
    if (await fetchIfDue(deps, stopping)) ages = await readAges(deps);
  };
  const task = {
    name: 'feed of prices',
    everyMs: CHECK_INTERVAL_MS,
    run,
    onFailure: 'failed to check the feed of prices; trying again',
  };
  repeat(task, deps.logger, context);
}

async function fetchIfDue(deps: Deps, stopping: AbortSignal): Promise<boolean> {
  const { feedSource, logger } = deps;
  if (!feedSource || !(await takeDueFetch(deps, feedSource))) return false;
  const result = await fetchAndApply(deps, feedSource, stopping);
  if ('error' in result) logger.warn({ why: result.error }, 'failed to read the feed of prices; prices stay');
  else {
    const { format, confirmed, applied, held, refused } = result.summary;
    logger.info({ format, confirmed, applied, held, refused }, 'read the feed of prices');
  }
  return true;
}

interface PriceAges {
  /** When the price of each origin that is least recently confirmed was. */
  readonly byOrigin: readonly { readonly origin: string; readonly priced_at: Date }[];
  /** Undefined: no feed is configured. */
  readonly feed: { readonly since: Date; readonly held: number } | undefined;
}

/** Of the models that can be used. As `pricedAt`. */
async function readAges({ db, feedSource }: Deps): Promise<PriceAges> {
  const { rows } = await sql<{ origin: string; priced_at: Date }>`
    SELECT origin, min(priced_at) AS priced_at
    FROM (
      SELECT newest.origin, greatest(
        CASE WHEN newest.origin = 'catalog' THEN coalesce(models.shipped_priced_at, newest.created_at) ELSE newest.created_at END,
        CASE WHEN newest.origin <> 'operator' AND models.feed_confirmed_version = newest.version THEN models.feed_confirmed_at END
      ) AS priced_at
      FROM models
      CROSS JOIN LATERAL (
        SELECT origin, version, created_at, ended FROM model_prices
        WHERE ${isOfModel} ORDER BY version DESC LIMIT 1
      ) AS newest
      WHERE models.deleted_at IS NULL AND NOT models.disabled AND NOT newest.ended
    ) AS priced
    GROUP BY origin`.execute(db);
  const row = feedSource && (await findFeed(db));
  return {
    byOrigin: rows,
    feed: row && {
      since: row.succeeded_at ?? row.failing_since ?? row.next_fetch_at,
      held: await countHeldChanges(db),
    },
  };
}

function exportAges({ metrics, now }: Deps, read: () => PriceAges): void {
  const seconds = (since: Date) => Math.max(0, (now().getTime() - since.getTime()) / 1_000);
  // Without a feed there is no value.
  const feedOf = (value: (feed: NonNullable<PriceAges['feed']>) => number) => {
    const { feed } = read();
    return feed ? [[{}, value(feed)] as const] : [];
  };
  metrics.gaugeBy(
    'weighbridge_price_age_seconds',
    'Age of the least recently confirmed price in force, by where it is from: catalog (the release), feed or operator.',
    ['origin'],
    () => read().byOrigin.map(({ origin, priced_at }) => [{ origin }, seconds(priced_at)] as const),
  );
  metrics.gaugeBy(
    'weighbridge_catalog_feed_age_seconds',
    'Time since the feed of prices was last read, or first failed.',
    [],
    () => feedOf((feed) => seconds(feed.since)),
  );
  metrics.gaugeBy(
    'weighbridge_catalog_feed_held_changes',
    'Changes of prices by the feed that wait for an operator.',
    [],
    () => feedOf((feed) => feed.held),
  );
}
