import type { UsageStream } from '@weighbridge/bus';
import type { Logger } from '@weighbridge/runtime';
import type { CloseEpoch } from '../control/controlClient.ts';
import { closeEpochOnceAcked } from './sender/closeEpoch.ts';
import { startEpochSender, unackedIn } from './sender/epochSender.ts';
import { startOrphanSender } from './sender/orphanSender.ts';
import { SENDER_TIMING, type SenderTiming } from './sender/shardSender.ts';
import { Watermark } from './sender/watermark.ts';
import type { Spool } from './spool/types.ts';
import { createUsageLog, type UsageLog } from './usageLog.ts';

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

/** What a proxy spends, on its way from the spool to the ledger. */
export interface UsageRecording {
  readonly log: UsageLog;
  /** Events that the ledger has not confirmed. */
  readonly unackedEvents: number;
  /** About what they take. */
  readonly unackedBytes: number;
  /** How long ago it was when all that had been settled until then was in the ledger, in milliseconds. */
  markAgeMs(): number;
  /**
   * To be called when all attempts are settled: hands over what is left and closes the epoch, unless it comes to rest.
   * What the ledger does not confirm within `timeoutMs` stays in the spool for the next start.
   */
  close(timeoutMs: number, how?: { readonly suspend: boolean }): Promise<void>;
}

/** Of an event, as long as none was seen. */
const USUAL_EVENT_BYTES = 400;

export function startUsageRecording(deps: UsageRecordingDeps): UsageRecording {
  const { spool, nowMs, logger } = deps;
  const sending = { ...deps, timing: deps.timing ?? SENDER_TIMING };
  const { own } = spool;
  const sender = startEpochSender(sending, own, { askFirst: spool.isResumed });
  const leftBehind = startOrphanSender(sending);
  const marks = new Watermark(own, nowMs());
  let settledEvents = 0;
  let settledBytes = 0;
  const log = createUsageLog(spool, (event) => {
    settledEvents++;
    settledBytes += event.bytes.length;
    sender.add(event);
  });
  const unackedEvents = () => [own, ...leftBehind.epochs].reduce((sum, epoch) => sum + unackedIn(epoch), 0);

  return {
    log,
    get unackedEvents() {
      return unackedEvents();
    },
    get unackedBytes() {
      const each = settledEvents > 0 ? settledBytes / settledEvents : USUAL_EVENT_BYTES;
      return Math.ceil(unackedEvents() * each);
    },
    markAgeMs: () => Math.round(marks.ageMs(nowMs())),

    async close(timeoutMs, { suspend } = { suspend: false }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      await log.durable()?.catch((error) => logger.error({ err: error }, 'the last usage is not written'));
      sender.flush();
      // An attempt that could not be settled gets its number at the next start, which then closes the epoch.
      const closing = !suspend && log.openAttempts === 0 && closeEpochOnceAcked(deps, own, deadline);
      const [isClosed] = await Promise.all([closing, leftBehind.close()]);
      await sender.stop();
      if (isClosed) return await own.remove();
      const events = unackedIn(own);
      if (events > 0) logger.warn({ events }, 'usage stays in the spool for the next start');
    },
  };
}
