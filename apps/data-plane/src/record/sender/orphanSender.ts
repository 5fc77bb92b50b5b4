import type { CloseEpoch } from '../../control/controlClient.ts';
import type { Spool, SpoolEpoch } from '../spool/types.ts';
import { closeEpochOnceAcked } from './closeEpoch.ts';
import { type EpochSenderDeps, startEpochSender } from './epochSender.ts';

export interface OrphanSenderDeps extends EpochSenderDeps {
  readonly spool: Pick<Spool, 'takeOrphanedEpochs'>;
  readonly closeEpoch: CloseEpoch;
}

/** Looks for epochs that were left behind, and hands them over. */
export interface OrphanSender {
  /** Those that were found and are not through. */
  readonly epochs: ReadonlySet<SpoolEpoch>;
  close(): Promise<void>;
}

/** Folders beside this one become free when the process that holds them dies. */
const LOOK_MS = 10_000;
/** So many at a time, however many a process that failed again and again has left. */
const MAX_AT_ONCE = 4;

export function startOrphanSender(deps: OrphanSenderDeps): OrphanSender {
  const { spool, logger } = deps;
  const closing = new AbortController();
  const epochs = new Set<SpoolEpoch>();
  const waiting: SpoolEpoch[] = [];
  const underWay = new Set<Promise<void>>();
  let looking: Promise<void> | undefined;

  async function look(): Promise<void> {
    try {
      for (const epoch of await spool.takeOrphanedEpochs()) {
        epochs.add(epoch);
        waiting.push(epoch);
      }
    } catch (error) {
      logger.error({ err: error }, 'it could not be found out what usage was left behind');
    }
    startNext();
  }

  function startNext(): void {
    while (underWay.size < MAX_AT_ONCE && !closing.signal.aborted) {
      const epoch = waiting.shift();
      if (!epoch) return;
      const work = handOver(deps, epoch, closing.signal)
        .then((isDone) => {
          if (isDone) epochs.delete(epoch);
        })
        .catch((error) => logger.error({ err: error, epoch: epoch.epoch }, 'usage stays where it was left'))
        .finally(() => {
          underWay.delete(work);
          startNext();
        });
      underWay.add(work);
    }
  }

  const lookOnce = () => {
    looking ??= look().finally(() => {
      looking = undefined;
    });
  };
  const timer = setInterval(lookOnce, LOOK_MS);
  lookOnce();

  return {
    epochs,
    async close() {
      clearInterval(timer);
      closing.abort();
      await looking;
      await Promise.all(underWay);
    },
  };
}

/** Sends what the ledger lacks of an epoch, closes it, and removes it; false where the signal came first. */
async function handOver(deps: OrphanSenderDeps, epoch: SpoolEpoch, signal: AbortSignal): Promise<boolean> {
  const { epoch: id, producerId } = epoch;
  deps.logger.info({ epoch: id, producerId }, 'handing over usage that an earlier process left behind');
  const sender = startEpochSender(deps, epoch, { askFirst: true });
  try {
    // The ledger may have had it all before: then there is nothing to send.
    if (!(await closeEpochOnceAcked(deps, epoch, signal))) return false;
  } finally {
    await sender.stop();
  }
  await epoch.remove();
  deps.logger.info({ epoch: id, producerId }, 'the ledger has all of it');
  return true;
}
