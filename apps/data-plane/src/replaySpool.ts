import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openJetStreamUsageStream } from '@weighbridge/bus';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { loadConfig, loadProcessConfig } from './config.ts';
import type { CloseEpoch } from './control/controlClient.ts';
import { openControlClient } from './control/controlClient.ts';
import { openSpool } from './record/spool/spool.ts';
import type { SpoolEpoch } from './record/spool/types.ts';
import { closeUntilDone } from './record/usage/closeEpoch.ts';
import {
  type EpochSenderDeps,
  eventsIn,
  startEpochSender,
  unconfirmedIn,
} from './record/usage/epochSender.ts';
import { SENDER_TIMING } from './record/usage/shardSender.ts';

export interface ReplayOptions {
  /** The folder of a spool that no process works on. */
  readonly dir: string;
  /** The data plane's settings, NATS_URL among them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
}

/** How long nothing may be confirmed before it is given up for now. */
const MAX_SILENCE_MS = 60_000;
/** How long the control plane is asked to close what the ledger has. */
const MAX_CLOSING_MS = 10_000;
const LOOK_MS = 100;

/**
 * Hands over to the ledger what a dead proxy's spool holds, and closes its epochs. Resolves with whether all of it is
 * done: what is not stays as it is, for another time. Rejects where the folder is no spool, or in use.
 */
export async function replaySpool({ dir, env, print }: ReplayOptions): Promise<boolean> {
  await access(join(dir, 'producer')).catch(() => {
    throw new Error(`${dir} is not a spool: there is no file "producer" in it.`);
  });
  const { natsUrl, natsStream } = loadProcessConfig(env);
  const { controlPlane, spool: settings } = loadConfig(env);
  const logger = createLogger('spool-replay');
  logger.level = 'error';
  const onError = (error: unknown, what: string) => logger.warn({ err: error }, what);
  const name = 'weighbridge-spool-replay';
  const stream = await openJetStreamUsageStream({ url: natsUrl, ...natsStream, name, onError });
  try {
    const spool = await openSpool({ ...settings, dir, newId: newUuid, now: () => new Date(), logger });
    const control = openControlClient(controlPlane, MAX_CLOSING_MS);
    try {
      const timing = SENDER_TIMING;
      const sending = { stream, newBatchId: newUuid, nowMs: () => performance.now(), logger, timing };
      const epochs = await spool.takeLeftBehind();
      if (epochs.length === 0) print('Nothing was left behind.');
      if (spool.damagedRecords > 0) print(damaged(spool.damagedRecords));
      let isDone = true;
      for (const epoch of epochs) {
        if (!(await replayEpoch(sending, epoch, control.closeEpoch, print))) isDone = false;
      }
      return isDone;
    } finally {
      control.client.close();
      // Nothing was written to it.
      await spool.own.remove();
      await spool.close();
    }
  } finally {
    await stream.close();
  }
}

async function replayEpoch(
  deps: EpochSenderDeps,
  epoch: SpoolEpoch,
  closeEpoch: CloseEpoch,
  print: (line: string) => void,
): Promise<boolean> {
  const { producerId, epoch: id } = epoch;
  const total = eventsIn(epoch);
  const givenUp = new AbortController();
  let refusal: unknown;
  const telling: CloseEpoch = (ended) =>
    closeEpoch(ended).catch((error) => {
      refusal = error;
      throw error;
    });
  const sender = startEpochSender(deps, epoch, { askFirst: true });
  const closing = closeUntilDone({ ...deps, closeEpoch: telling }, epoch, givenUp.signal);
  await Promise.race([closing, silence(deps, epoch, givenUp.signal)]);
  givenUp.abort();
  const isClosed = await closing;
  await sender.stop();

  const what = `Epoch ${id} of producer ${producerId}: ${total} events`;
  const missing = unconfirmedIn(epoch);
  if (isClosed) {
    await epoch.remove();
    print(`${what}, all in the ledger. Closed and removed.`);
  } else if (missing > 0) {
    print(
      `${what}, of which the ledger has not confirmed ${missing}. They stay: try again once metering runs, on the NATS that was named here. ${why(refusal)}`,
    );
  } else print(`${what}, all in the ledger. It remains to be closed: try again. ${why(refusal)}`);
  return isClosed;
}

/** Resolves when nothing has been confirmed for too long, and when the signal aborts. */
async function silence({ nowMs }: EpochSenderDeps, epoch: SpoolEpoch, signal: AbortSignal): Promise<void> {
  let left = unconfirmedIn(epoch);
  let sinceMs = nowMs();
  while (!signal.aborted && nowMs() - sinceMs < (left > 0 ? MAX_SILENCE_MS : MAX_CLOSING_MS)) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    const leftNow = unconfirmedIn(epoch);
    if (leftNow !== left) sinceMs = nowMs();
    left = leftNow;
  }
}

function damaged(records: number): string {
  return `Its files could not be read at ${records} place(s), named in the log: what stood there is missing unless the ledger has it already. Compare the vendor's bill.`;
}

function why(refusal: unknown): string {
  if (!(refusal instanceof Error)) return '';
  return `The control plane (CONTROL_PLANE_ADDRESS, CONTROL_PLANE_TOKEN) could not be told: ${refusal.message}`;
}
