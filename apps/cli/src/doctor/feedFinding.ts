import type { components } from '@weighbridge/client';
import { type Finding, ok, warn } from './finding.ts';

type CatalogFeed = components['schemas']['CatalogFeed'];

const CHECK = 'prices';
/** A feed is fetched about once a day, and each hour while it fails. */
const LATE_MS = 2 * 24 * 3_600_000;

/** Whether the feed of prices, if there is one, is read, and whether it waits for someone. */
export function feedFinding(feed: CatalogFeed, now: Date): Finding {
  const { state, error, last_success_at, held_changes, failing_since } = feed;
  if (state === 'off') return ok(CHECK, 'of the release and of operators; no feed is configured');
  if (state === 'failing') {
    return warn(
      CHECK,
      `the feed fails since ${failing_since}: ${error}`,
      'The prices in force stay. Correct CATALOG_FEED_URL, or what it names; then run weighbridge catalog feed refresh.',
    );
  }
  if (held_changes > 0) {
    return warn(
      CHECK,
      `${held_changes} ${held_changes === 1 ? 'change' : 'changes'} of the feed ${held_changes === 1 ? 'waits' : 'wait'} for a decision`,
      'List them with weighbridge catalog feed changes; then approve or reject each.',
    );
  }
  if (last_success_at === null) return ok(CHECK, 'the feed was not read yet');
  if (now.getTime() - new Date(last_success_at).getTime() > LATE_MS) {
    return warn(
      CHECK,
      `the feed was last read at ${last_success_at}`,
      'Run weighbridge catalog feed refresh, and check the log of the control plane.',
    );
  }
  return ok(CHECK, `the feed was read at ${last_success_at}`);
}
