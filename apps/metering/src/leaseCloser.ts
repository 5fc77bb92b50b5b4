import type { Database } from '@weighbridge/database';
import { closeLeases } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { MeteringMetrics } from './meteringMetrics.ts';

export interface LeaseCloser {
  /** An epoch was closed here. Those that were closed elsewhere are found within a second. */
  prompt(): void;
  /** Waits for the portion in progress. */
  stop(): Promise<void>;
}

const EVERY_MS = 1_000;
const RETRY_MS = 5_000;

/**
 * Closes the leases of closed epochs, apart from the ledger's other maintenance, which may take minutes: until it is done, their rest
 * is headroom that no one has.
 */
export function startLeaseCloser(
  { db, metrics }: { readonly db: Database; readonly metrics: MeteringMetrics },
  logger: Logger,
): LeaseCloser {
  let isStopping = false;
  let isPrompted = false;
  let wake = () => {};
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
      if (isPrompted || isStopping) wake();
    });

  async function round(): Promise<number> {
    isPrompted = false;
    try {
      return (await closeLeases(db)) ? 0 : EVERY_MS;
    } catch (error) {
      metrics.maintenanceFailures.inc({ task: 'leases of closed epochs' });
      logger.warn({ why: error }, 'failed to close the leases of closed epochs; retrying');
      return RETRY_MS;
    }
  }

  const running = (async () => {
    while (!isStopping) await wait(await round());
  })();
  return {
    prompt() {
      isPrompted = true;
      wake();
    },
    async stop() {
      isStopping = true;
      wake();
      await running;
    },
  };
}
