import { setTimeout as sleep } from 'node:timers/promises';
import type { ProducerKey } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { SpoolEpoch } from '../spool/types.ts';

/** Reports an epoch's end and its last numbers. Resolves with whether the ledger has all its events. */
export type CloseEpoch = (epoch: EpochEnd) => Promise<boolean>;

interface EpochEnd {
  readonly producerId: string;
  readonly epoch: string;
  /** Of each shard that it declared. */
  readonly lastN: readonly bigint[];
  /** The producer's; undefined if it is of an older release, or its key is lost. */
  readonly key: ProducerKey | undefined;
}

const PAUSE_MIN_MS = 100;
const PAUSE_MAX_MS = 10_000;

/**
 * Reports the epoch's last numbers to the control plane until it answers that the ledger has all events, which counts as
 * their ack. Resolves with false if the signal aborts first.
 */
export async function closeEpochOnceAcked(
  { closeEpoch, logger }: { readonly closeEpoch: CloseEpoch; readonly logger: Logger },
  epoch: SpoolEpoch,
  signal: AbortSignal,
): Promise<boolean> {
  const { producerId, key } = epoch;
  const lastN = Array.from({ length: epoch.shards }, (_, shard) => epoch.lastN(shard));
  for (let pause = PAUSE_MIN_MS; !signal.aborted; pause = Math.min(pause * 2, PAUSE_MAX_MS)) {
    try {
      if (await closeEpoch({ producerId, epoch: epoch.epoch, lastN, key })) {
        for (const [shard, n] of lastN.entries()) epoch.ack(shard, n);
        return true;
      }
    } catch (error) {
      logger.debug(
        { err: error, epoch: epoch.epoch },
        'failed to close an epoch at the control plane; retrying',
      );
    }
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
  return false;
}
