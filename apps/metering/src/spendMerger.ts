import { setTimeout as sleep } from 'node:timers/promises';
import type { UsageStream } from '@weighbridge/bus';
import type { Database } from '@weighbridge/database';
import { hasAppendedSpend, type MergeProgress, mergeSpend } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import { announceThreshold } from './announceThreshold.ts';
import type { MeteringMetrics } from './meteringMetrics.ts';

export interface SpendMerger {
  /** Why counters fall behind; undefined if they don't. */
  standsStill(): string | undefined;
  /** Merges what is left, and waits for that. */
  stop(): Promise<void>;
}

const EVERY_MS = 200;
const RETRY_MS = 1_000;
/** As the alert. */
const STANDS_STILL_MS = 60_000;
/** What stopping merges at most: another worker, or the next one, merges the rest. */
const LAST_ROUNDS = 50;

/**
 * Merges what batches appended to shared counters, several times a second. Every worker tries, and one at a time does it, so that the end
 * of one holds up nothing.
 */
export function startSpendMerger(
  deps: {
    readonly db: Database;
    readonly stream: Pick<UsageStream, 'announce'>;
    readonly now: () => Date;
    readonly metrics: MeteringMetrics;
  },
  logger: Logger,
): SpendMerger {
  const { db, now, metrics, stream } = deps;
  const stopping = new AbortController();
  const progress: MergeProgress = {};
  let workedAt = performance.now();

  /** Returns whether there is more to merge. */
  async function merge(): Promise<boolean> {
    if (!(await hasAppendedSpend(db))) return false;
    const merged = await mergeSpend(db, now(), progress);
    for (const reached of merged?.thresholds ?? []) announceThreshold(stream, metrics, logger, reached);
    return merged?.hasMore ?? false;
  }

  async function round(): Promise<number> {
    try {
      const hasMore = await merge();
      workedAt = performance.now();
      return hasMore ? 0 : EVERY_MS;
    } catch (error) {
      metrics.maintenanceFailures.inc({ task: 'merging of spend' });
      logger.warn({ why: error }, 'failed to merge what was spent into its counters; retrying');
      return RETRY_MS;
    }
  }

  const running = (async () => {
    while (!stopping.signal.aborted) {
      await sleep(await round(), undefined, { signal: stopping.signal }).catch(() => {});
    }
    for (let rounds = 0; rounds < LAST_ROUNDS; rounds++) if ((await round()) > 0) return;
  })();
  return {
    standsStill: () =>
      performance.now() - workedAt > STANDS_STILL_MS
        ? 'what was spent is not merged into its counters'
        : undefined,
    async stop() {
      stopping.abort();
      await running;
    },
  };
}
