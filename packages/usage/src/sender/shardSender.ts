import {
  type MessagePosition,
  MessageTooLargeError,
  type StreamPosition,
  type UsageStream,
} from '@weighbridge/bus';
import type { Logger } from '@weighbridge/runtime';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';
import { type Batch, encodeBatch, lastNOf, ShardQueue } from './shardQueue.ts';
import { UnackedBatches } from './unackedBatches.ts';
import { WakeableSleep } from './wakeableSleep.ts';

export interface ShardSenderDeps {
  readonly stream: Pick<UsageStream, 'publish'>;
  readonly newBatchId: () => string;
  /** Monotonic. */
  readonly nowMs: () => number;
  readonly logger: Logger;
  readonly timing: SenderTiming;
}

export interface SenderTiming {
  /** How long an event waits for others to join its batch: signing and sending one delays the request beside it. */
  readonly batchWaitMs: number;
  /** How long to wait for the ledger's acks of an orphaned epoch before sending it. */
  readonly askMs: number;
  /** Interval of the check for lost batches. */
  readonly checkMs: number;
  /** How long a batch that metering handled may stay unacked before it is first resent. */
  readonly graceMs: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
}

export const SENDER_TIMING: SenderTiming = {
  batchWaitMs: 100,
  askMs: 2_000,
  checkMs: 5_000,
  graceMs: 4_000,
  retryMinMs: 50,
  retryMaxMs: 2_000,
};

/** The longest pause between resends of a batch that is handled and never acked. */
const MAX_GRACE_MS = 600_000;
const LOG_EVERY_MS = 60_000;
const STREAM_REPLACED = 'the usage stream was replaced or restored from an older state; resending';
const NOT_IN_LEDGER = 'metering handled usage that is not in the ledger; resending';

/**
 * Sends the events of one shard of an epoch in the order of their numbers, one batch at a time, until the ledger has acked
 * them. Resends what the stream lost.
 */
export class ShardSender {
  readonly #deps: ShardSenderDeps;
  readonly #epoch: SpoolEpoch;
  readonly #shard: number;
  readonly #queue: ShardQueue;
  readonly #unacked = new UnackedBatches();
  readonly #pause = new WakeableSleep();
  #isFlushing = false;
  #isStopped = false;
  /** When the last ack came, or the first batch that waits for one was stored. */
  #progressAtMs = 0;
  /** Handled up to this number without an ack, since when. */
  #suspected: { readonly handledN: bigint; readonly sinceMs: number } | undefined;
  #graceMs: number;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ShardSenderDeps, epoch: SpoolEpoch, shard: number) {
    this.#deps = deps;
    this.#epoch = epoch;
    this.#shard = shard;
    this.#queue = new ShardQueue(epoch, shard);
    this.#graceMs = deps.timing.graceMs;
  }

  get isAcked(): boolean {
    return this.#ackedN >= this.#epoch.lastN(this.#shard);
  }

  /** How long stored batches have waited without an ack. */
  stalledMs(nowMs: number): number {
    return this.#unacked.size === 0 ? 0 : nowMs - this.#progressAtMs;
  }

  /** An event that was just settled. */
  add(event: SettledEvent): void {
    this.#queue.add(event);
    this.#pause.wake(this.#queue.isBatchFull ? 'full' : 'work');
  }

  /** The ledger has everything up to `n`. */
  ack(n: bigint): void {
    const last = this.#epoch.lastN(this.#shard);
    const acked = n < last ? n : last;
    if (acked <= this.#ackedN) return;
    this.#epoch.ack(this.#shard, acked);
    this.#unacked.forgetUpTo(acked);
    this.#queue.skipTo(acked);
    this.#progressAtMs = this.#deps.nowMs();
    this.#suspected = undefined;
    this.#graceMs = this.#deps.timing.graceMs;
  }

  /** Call it before reading the stream's position; pass the position to the result, which resends lost batches. */
  beginLossCheck(): (position: StreamPosition) => void {
    const { streamId, highestSequence, size } = this.#unacked;
    return (position) => {
      // Acked or resent meanwhile.
      if (size === 0 || this.#unacked.size === 0 || this.#unacked.streamId !== streamId) return;
      if (position.streamId !== streamId || position.lastSequence < highestSequence) {
        this.#resendAll(position.streamId);
        return;
      }
      this.#checkHandled(position.handledUpTo[this.#shard] ?? 0n);
    };
  }

  /** Sends until stopped; sleeps while there is nothing to send. */
  async run(): Promise<void> {
    let pauseMs = 0;
    while (!this.#isStopped) {
      if (this.#queue.isEmpty) {
        await this.#pause.sleep({ until: 'work' });
        continue;
      }
      if (this.#queue.canGrow && !this.#isFlushing) {
        await this.#pause.sleep({ until: 'full', ms: this.#deps.timing.batchWaitMs });
      }
      try {
        const batch = await this.#queue.take();
        if (batch) await this.#sendUntilStored(batch);
        pauseMs = 0;
      } catch (error) {
        this.#warn(error, 'failed to read usage from the spool; retrying');
        pauseMs = this.#longerPause(pauseMs);
        await this.#pause.sleep({ until: 'stop', ms: pauseMs });
      }
    }
  }

  /** From now on, events are sent without waiting for others. */
  flush(): void {
    this.#isFlushing = true;
    this.#pause.wake('full');
  }

  /** Ends `run` after the current try. */
  stop(): void {
    this.#isStopped = true;
    this.#pause.wake('stop');
  }

  get #ackedN(): bigint {
    return this.#epoch.ackedN(this.#shard);
  }

  /** Every try uses the same message id, by which the stream recognises a batch that it stored although the reply was lost. */
  async #sendUntilStored(batch: Batch): Promise<void> {
    const id = this.#deps.newBatchId();
    const payload = encodeBatch(this.#epoch, batch);
    let pauseMs = 0;
    while (!this.#isStopped && lastNOf(batch) > this.#ackedN) {
      try {
        this.#noteStored(
          batch,
          await this.#deps.stream.publish(this.#shard, this.#epoch.producerId, id, payload),
        );
        return;
      } catch (error) {
        if (error instanceof MessageTooLargeError && batch.length > 1) return await this.#sendHalves(batch);
        this.#warn(error, 'failed to publish usage; retrying');
        pauseMs = this.#longerPause(pauseMs);
        await this.#pause.sleep({ until: 'stop', ms: pauseMs });
      }
    }
  }

  async #sendHalves(batch: Batch): Promise<void> {
    const middle = batch.length >> 1;
    for (const half of [batch.slice(0, middle), batch.slice(middle)]) {
      const [first, ...others] = half;
      if (first) await this.#sendUntilStored([first, ...others]);
    }
  }

  #noteStored(batch: Batch, { streamId, sequence }: MessagePosition): void {
    const lastN = lastNOf(batch);
    const unacked = this.#unacked;
    if (unacked.streamId === undefined) unacked.restart(streamId);
    else if (streamId !== unacked.streamId || sequence <= unacked.highestSequence) this.#resendAll(streamId);
    if (this.#queue.isToResend(batch) || lastN <= this.#ackedN) return;
    if (unacked.size === 0) this.#progressAtMs = this.#deps.nowMs();
    unacked.add({ firstN: batch[0].n, lastN, sequence });
  }

  /** Resends batches that metering handled and that stay unacked beyond the grace time. */
  #checkHandled(handledUpTo: bigint): void {
    const handledN = this.#unacked.handledN(handledUpTo);
    const nowMs = this.#deps.nowMs();
    if (handledN === undefined) return;
    // This check also requested the acks; they may still come.
    this.#suspected ??= { handledN, sinceMs: nowMs };
    if (nowMs - this.#suspected.sinceMs < this.#graceMs) return;
    this.#resend(this.#suspected.handledN, NOT_IN_LEDGER);
    this.#graceMs = Math.min(this.#graceMs * 2, MAX_GRACE_MS);
  }

  #resendAll(streamId: string): void {
    this.#unacked.restart(streamId);
    this.#resend(this.#queue.sentN, STREAM_REPLACED);
  }

  #resend(toN: bigint, message: string): void {
    this.#suspected = undefined;
    const range = this.#queue.resendUpTo(toN);
    if (!range) return;
    this.#unacked.forgetUpTo(range.toN);
    const { epoch } = this.#epoch;
    const fields = { epoch, shard: this.#shard, fromN: String(range.fromN), toN: String(range.toN) };
    this.#deps.logger.warn(fields, message);
    this.#pause.wake('full');
  }

  #longerPause(pauseMs: number): number {
    const { retryMinMs, retryMaxMs } = this.#deps.timing;
    return Math.min(Math.max(pauseMs * 2, retryMinMs), retryMaxMs);
  }

  /** Once a minute: an outage of hours must not fill the log. */
  #warn(error: unknown, message: string): void {
    const nowMs = this.#deps.nowMs();
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    const isTooLarge = error instanceof MessageTooLargeError;
    const hint = isTooLarge ? '. One event is larger than NATS accepts: raise max_payload' : '';
    this.#deps.logger.warn({ err: error, shard: this.#shard, epoch: this.#epoch.epoch }, message + hint);
  }
}
