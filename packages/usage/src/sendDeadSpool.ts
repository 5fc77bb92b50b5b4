import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { UsageStream } from '@weighbridge/bus';
import { newUuid } from '@weighbridge/domain';
import type { Logger } from '@weighbridge/runtime';
import { type CloseEpoch, closeEpochOnceAcked } from './sender/closeEpoch.ts';
import { type EpochSenderDeps, eventsIn, startEpochSender, unackedIn } from './sender/epochSender.ts';
import { SENDER_TIMING } from './sender/shardSender.ts';
import { openSpool } from './spool/spool.ts';
import type { SpoolEpoch, SpoolOptions } from './spool/types.ts';

interface SendDeadSpoolOptions {
  readonly spool: Pick<SpoolOptions, 'dir' | 'maxBytes' | 'sync'>;
  readonly openStream: () => Promise<UsageStream>;
  readonly closeEpoch: CloseEpoch;
  readonly logger: Logger;
  readonly print: (line: string) => void;
}

/** Gives up on an epoch after this long without an ack. */
const MAX_SILENCE_MS = 60_000;
/** Gives up on closing a fully acked epoch after this long. */
export const MAX_CLOSING_MS = 10_000;
const POLL_MS = 100;

/**
 * Sends the usage in a dead proxy's spool to the ledger and closes its epochs. Resolves with false if some of it is
 * not in the ledger yet: that stays in the spool for another run. Rejects if the folder is no spool, or in use.
 */
export async function sendDeadSpool(options: SendDeadSpoolOptions): Promise<boolean> {
  const { openStream, closeEpoch, logger, print } = options;
  const { dir } = options.spool;
  await access(join(dir, 'producer')).catch(() => {
    throw new Error(`${dir} is not a spool: it contains no file "producer".`);
  });
  const stream = await openStream();
  try {
    const spool = await openSpool({ ...options.spool, newId: newUuid, now: () => new Date(), logger });
    const deps = {
      stream,
      newBatchId: newUuid,
      nowMs: () => performance.now(),
      logger,
      timing: SENDER_TIMING,
    };
    try {
      const epochs = await spool.takeOrphanedEpochs();
      if (epochs.length === 0) print('The spool is empty: there is nothing to replay.');
      if (spool.damagedRecords > 0) print(describeDamage(spool.damagedRecords));
      let isDone = true;
      for (const epoch of epochs) {
        if (!(await sendEpoch(deps, epoch, closeEpoch, print))) isDone = false;
      }
      return isDone;
    } finally {
      // This run's own epoch is empty.
      await spool.own.remove();
      await spool.close();
    }
  } finally {
    await stream.close();
  }
}

async function sendEpoch(
  deps: EpochSenderDeps,
  epoch: SpoolEpoch,
  closeEpoch: CloseEpoch,
  print: (line: string) => void,
): Promise<boolean> {
  const { producerId, epoch: id } = epoch;
  const total = eventsIn(epoch);
  const giveUp = new AbortController();
  let closeError: unknown;
  const notingErrors: CloseEpoch = (ended) =>
    closeEpoch(ended).catch((error) => {
      closeError = error;
      throw error;
    });
  const sender = startEpochSender(deps, epoch, { askFirst: true });
  const closing = closeEpochOnceAcked({ ...deps, closeEpoch: notingErrors }, epoch, giveUp.signal);
  await Promise.race([closing, waitForSilence(deps, epoch, giveUp.signal)]);
  giveUp.abort();
  const isClosed = await closing;
  await sender.stop();

  const summary = `Epoch ${id} of producer ${producerId}: ${total} events`;
  const missing = unackedIn(epoch);
  if (isClosed) {
    await epoch.remove();
    print(`${summary}, all in the ledger. Closed and removed.`);
  } else if (missing > 0) {
    print(
      `${summary}, ${missing} not confirmed by the ledger. They stay in the spool. Check that metering runs and that NATS_URL is the NATS it reads, then run this again. ${describeCloseError(closeError)}`,
    );
  } else {
    print(
      `${summary}, all in the ledger. The epoch could not be closed: run this again. ${describeCloseError(closeError)}`,
    );
  }
  return isClosed;
}

/** Resolves when no ack has come for too long, or the signal aborts. */
async function waitForSilence(
  { nowMs }: EpochSenderDeps,
  epoch: SpoolEpoch,
  signal: AbortSignal,
): Promise<void> {
  let unacked = unackedIn(epoch);
  let sinceMs = nowMs();
  while (!signal.aborted && nowMs() - sinceMs < (unacked > 0 ? MAX_SILENCE_MS : MAX_CLOSING_MS)) {
    await sleep(POLL_MS, undefined, { signal }).catch(() => {});
    const unackedNow = unackedIn(epoch);
    if (unackedNow !== unacked) sinceMs = nowMs();
    unacked = unackedNow;
  }
}

function describeDamage(records: number): string {
  return `${records} damaged place(s) in its files, named in the log, could not be read. Usage recorded there is missing from the ledger unless it was sent before. Compare with the vendor's bill.`;
}

function describeCloseError(error: unknown): string {
  if (!(error instanceof Error)) return '';
  return `Closing the epoch at the control plane (CONTROL_PLANE_ADDRESS, CONTROL_PLANE_TOKEN) failed: ${error.message}`;
}
