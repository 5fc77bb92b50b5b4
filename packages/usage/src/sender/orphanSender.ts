import { isSigningProducer } from '@weighbridge/contracts';
import type { Spool, SpoolEpoch } from '../spool/types.ts';
import { type CloseEpoch, closeEpochOnceAcked } from './closeEpoch.ts';
import { type EpochSenderDeps, startEpochSender } from './epochSender.ts';

export interface OrphanSenderDeps extends EpochSenderDeps {
  readonly spool: Pick<Spool, 'takeOrphanedEpochs'>;
  readonly closeEpoch: CloseEpoch;
}

/** Looks for orphaned epochs, sends their events, and closes and removes them. */
export interface OrphanSender {
  /** Epochs that were found and are not finished. */
  readonly epochs: ReadonlySet<SpoolEpoch>;
  close(): Promise<void>;
}

/** A sibling spool becomes orphaned when the process that holds it dies. */
const SCAN_MS = 10_000;
const KEY_LOST =
  'the key of this producer is lost, and metering refuses its usage without it: put its file producer.key back into the spool';
/** A process that crashed repeatedly may have left any number of epochs. */
const MAX_PARALLEL = 4;

export function startOrphanSender(deps: OrphanSenderDeps): OrphanSender {
  const { spool, logger } = deps;
  const closing = new AbortController();
  const epochs = new Set<SpoolEpoch>();
  const waiting: SpoolEpoch[] = [];
  const running = new Set<Promise<void>>();
  let scanning: Promise<void> | undefined;

  async function scan(): Promise<void> {
    try {
      for (const epoch of await spool.takeOrphanedEpochs()) {
        epochs.add(epoch);
        waiting.push(epoch);
      }
    } catch (error) {
      logger.error({ err: error }, 'failed to look for orphaned epochs; retrying');
    }
    startNext();
  }

  function startNext(): void {
    while (running.size < MAX_PARALLEL && !closing.signal.aborted) {
      const epoch = waiting.shift();
      if (!epoch) return;
      const work = sendOrphan(deps, epoch, closing.signal)
        .then((isDone) => {
          if (isDone) epochs.delete(epoch);
        })
        .catch((error) => {
          logger.error(
            { err: error, epoch: epoch.epoch },
            'failed to send an orphaned epoch; it stays in the spool',
          );
        })
        .finally(() => {
          running.delete(work);
          startNext();
        });
      running.add(work);
    }
  }

  const scanOnce = () => {
    scanning ??= scan().finally(() => {
      scanning = undefined;
    });
  };
  const timer = setInterval(scanOnce, SCAN_MS);
  scanOnce();

  return {
    epochs,
    async close() {
      clearInterval(timer);
      closing.abort();
      await scanning;
      await Promise.all(running);
    },
  };
}

/** Sends what the ledger lacks of an epoch, closes it and removes it. Resolves with false if the signal aborts first. */
async function sendOrphan(deps: OrphanSenderDeps, epoch: SpoolEpoch, signal: AbortSignal): Promise<boolean> {
  const { epoch: id, producerId } = epoch;
  deps.logger.info({ epoch: id, producerId }, 'sending the usage of an orphaned epoch');
  if (!epoch.key && isSigningProducer(producerId)) {
    deps.logger.error({ epoch: id, producerId }, KEY_LOST);
  }
  const sender = startEpochSender(deps, epoch, { askFirst: true });
  try {
    // If the ledger already has all of it, this closes before anything is sent.
    if (!(await closeEpochOnceAcked(deps, epoch, signal))) return false;
  } finally {
    await sender.stop();
  }
  await epoch.remove();
  deps.logger.info({ epoch: id, producerId }, 'orphaned epoch is in the ledger; closed and removed');
  return true;
}
