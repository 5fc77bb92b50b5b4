import type { UsageStream } from '@weighbridge/bus';
import type { Logger } from '@weighbridge/runtime';
import { type CloseEpoch, closeEpochOnceAcked } from './sender/closeEpoch.ts';
import { startEpochSender, unackedIn } from './sender/epochSender.ts';
import { startOrphanSender } from './sender/orphanSender.ts';
import { SENDER_TIMING, type SenderTiming } from './sender/shardSender.ts';
import { Watermark } from './sender/watermark.ts';
import type { Spool, UsageLog } from './spool/types.ts';

export interface UsageRecordingDeps {
  readonly spool: Spool;
  readonly stream: UsageStream;
  readonly closeEpoch: CloseEpoch;
  readonly newBatchId: () => string;
  /** Monotonic. */
  readonly nowMs: () => number;
  readonly logger: Logger;
  readonly timing?: SenderTiming;
}

/** A proxy's usage on its way from the spool to the ledger. */
export interface UsageRecording {
  readonly log: UsageLog;
  /** Events that the ledger has not acked. */
  readonly unackedEvents: number;
  /** Their approximate size. */
  readonly unackedBytes: number;
  /** Milliseconds since the latest moment up to which everything settled is in the ledger. */
  watermarkAgeMs(): number;
  /**
   * Call it once all attempts are settled. Sends what is left and closes the epoch, unless it is suspended. What the
   * ledger does not ack within `timeoutMs` stays in the spool for the next start.
   */
  close(timeoutMs: number, how?: { readonly suspend: boolean }): Promise<void>;
}

/** Assumed until the first event is settled. */
const TYPICAL_EVENT_BYTES = 400;

export function startUsageRecording(deps: UsageRecordingDeps): UsageRecording {
  const { spool, nowMs, logger } = deps;
  const senderDeps = { ...deps, timing: deps.timing ?? SENDER_TIMING };
  const { own } = spool;
  const sender = startEpochSender(senderDeps, own, { askFirst: spool.isResumed });
  const orphans = startOrphanSender(senderDeps);
  const watermark = new Watermark(own, nowMs());
  let settledEvents = 0;
  let settledBytes = 0;
  spool.onSettled((event) => {
    settledEvents++;
    settledBytes += event.bytes.length;
    sender.add(event);
  });
  const unackedEvents = () => [own, ...orphans.epochs].reduce((sum, epoch) => sum + unackedIn(epoch), 0);

  return {
    log: spool,
    get unackedEvents() {
      return unackedEvents();
    },
    get unackedBytes() {
      const eventBytes = settledEvents > 0 ? settledBytes / settledEvents : TYPICAL_EVENT_BYTES;
      return Math.ceil(unackedEvents() * eventBytes);
    },
    watermarkAgeMs: () => Math.round(watermark.ageMs(nowMs())),

    async close(timeoutMs, { suspend } = { suspend: false }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      await spool.durable()?.catch((error) => logger.error({ err: error }, 'failed to write the last usage'));
      sender.flush();
      // An open attempt is settled by the next start, which then closes the epoch.
      const closing = !suspend && spool.openAttempts === 0 && closeEpochOnceAcked(deps, own, deadline);
      const [isClosed] = await Promise.all([closing, orphans.close()]);
      await sender.stop();
      if (isClosed) return await own.remove();
      const events = unackedIn(own);
      if (events > 0) logger.warn({ events }, 'unacked usage stays in the spool for the next start');
    },
  };
}
