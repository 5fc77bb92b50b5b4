import {
  type MessagePosition,
  MessageTooLargeError,
  type StreamPosition,
  type UsageStream,
} from '@weighbridge/bus';
import type { Logger } from '@weighbridge/runtime';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';
import { UnackedBatches } from './unackedBatches.ts';
import {
  type Batch,
  encodeBatch,
  lastNOf,
  MAX_BATCH_BYTES,
  MAX_BATCH_EVENTS,
  nextBatch,
} from './usageBatch.ts';
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
  /** How long an event waits for others to travel with. */
  readonly batchWaitMs: number;
  /** How long the ledger is given to say what it has of an epoch that was left behind. */
  readonly askMs: number;
  /** How often it is looked whether what was sent has arrived. */
  readonly checkMs: number;
  /** How long a batch that was handled may stay unconfirmed before it is sent again, the first time. */
  readonly graceMs: number;
  readonly retryMinMs: number;
  readonly retryMaxMs: number;
}

export const SENDER_TIMING: SenderTiming = {
  batchWaitMs: 20,
  askMs: 2_000,
  checkMs: 5_000,
  graceMs: 4_000,
  retryMinMs: 50,
  retryMaxMs: 2_000,
};

/** What may wait in memory; the rest is read back from the spool when its turn comes. */
const MAX_FRESH_BYTES = 8 * 1024 * 1024;
/** A batch that is handled again and again and never confirmed is sent no more often than that. */
const MAX_GRACE_MS = 600_000;
const LOG_EVERY_MS = 60_000;

/**
 * Sends the events of one shard of an epoch in the order of their numbers, one batch at a time, until the ledger has
 * confirmed them. What the stream lost on the way is sent again.
 */
export class ShardSender {
  readonly #deps: ShardSenderDeps;
  readonly #epoch: SpoolEpoch;
  readonly #shard: number;
  readonly #unconfirmed = new UnackedBatches();
  readonly #nap = new WakeableSleep();
  /** The first number that was never taken to be sent. */
  #nextN: bigint;
  /** What was sent before and is to be sent again, first of all. */
  #again: { readonly fromN: bigint; readonly toN: bigint } | undefined;
  /** Events from `nextN` on that need not be read back. */
  #fresh: SettledEvent[] = [];
  #freshBytes = 0;
  #isFlushing = false;
  #isStopped = false;
  /** When a confirm last came, or the first batch went out that one is awaited for. */
  #progressAtMs = 0;
  #suspicion: { readonly handledN: bigint; readonly sinceMs: number } | undefined;
  #graceMs: number;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ShardSenderDeps, epoch: SpoolEpoch, shard: number) {
    this.#deps = deps;
    this.#epoch = epoch;
    this.#shard = shard;
    this.#nextN = epoch.ackedN(shard) + 1n;
    this.#graceMs = deps.timing.graceMs;
  }

  get isAcked(): boolean {
    return this.#ackedN >= this.#epoch.lastN(this.#shard);
  }

  /** For how long a confirm has been awaited in vain. */
  stalledMs(nowMs: number): number {
    return this.#unconfirmed.size === 0 ? 0 : nowMs - this.#progressAtMs;
  }

  /** An event that was just settled. It is kept in memory where it is next in turn and there is room. */
  add(event: SettledEvent): void {
    const next = this.#nextN + BigInt(this.#fresh.length);
    if (event.n === next && this.#freshBytes + event.bytes.length <= MAX_FRESH_BYTES) {
      this.#fresh.push(event);
      this.#freshBytes += event.bytes.length;
    }
    this.#nap.rouse(this.#isBatchFull ? 'full' : 'work');
  }

  /** The ledger has everything up to `n`. */
  ack(n: bigint): void {
    const last = this.#epoch.lastN(this.#shard);
    const confirmed = n < last ? n : last;
    if (confirmed <= this.#ackedN) return;
    this.#epoch.ack(this.#shard, confirmed);
    this.#unconfirmed.forgetUpTo(confirmed);
    if (this.#nextN <= confirmed) {
      // An earlier run of the process had sent it.
      this.#nextN = confirmed + 1n;
      this.#forgetFresh();
    }
    this.#progressAtMs = this.#deps.nowMs();
    this.#suspicion = undefined;
    this.#graceMs = this.#deps.timing.graceMs;
  }

  /**
   * To be called before the stream's position is asked for; what it returns takes the answer, and sees to it that what the
   * stream lost is sent again.
   */
  beginLook(): (position: StreamPosition) => void {
    const { streamId, highestSequence, size } = this.#unconfirmed;
    return (position) => {
      // Meanwhile confirmed, or sent again already.
      if (size === 0 || this.#unconfirmed.size === 0 || this.#unconfirmed.streamId !== streamId) return;
      if (position.streamId !== streamId || position.lastSequence < highestSequence) {
        this.#sendAllAgain(position.streamId, 'the usage stream is not what it was');
        return;
      }
      this.#suspectHandled(position.handledUpTo[this.#shard] ?? 0n);
    };
  }

  /** Sends until it is stopped; waits when there is nothing to send. */
  async run(): Promise<void> {
    let pauseMs = 0;
    while (!this.#isStopped) {
      if (this.#isIdle) {
        await this.#nap.sleep({ until: 'work' });
        continue;
      }
      if (this.#mayLinger) await this.#nap.sleep({ until: 'full', ms: this.#deps.timing.batchWaitMs });
      try {
        const batch = await this.#take();
        if (batch) await this.#sendUntilStored(batch);
        pauseMs = 0;
      } catch (error) {
        this.#complain(error, 'usage could not be read from the spool; trying again');
        pauseMs = this.#longer(pauseMs);
        await this.#nap.sleep({ until: 'stop', ms: pauseMs });
      }
    }
  }

  /** From now on nothing waits for company. */
  flush(): void {
    this.#isFlushing = true;
    this.#nap.rouse('full');
  }

  /** Ends `run` after the try that is under way. */
  stop(): void {
    this.#isStopped = true;
    this.#nap.rouse('stop');
  }

  get #ackedN(): bigint {
    return this.#epoch.ackedN(this.#shard);
  }

  get #isIdle(): boolean {
    return this.#again === undefined && this.#nextN > this.#epoch.lastN(this.#shard);
  }

  get #isBatchFull(): boolean {
    return this.#fresh.length >= MAX_BATCH_EVENTS || this.#freshBytes >= MAX_BATCH_BYTES;
  }

  get #mayLinger(): boolean {
    const isAllInMemory = this.#nextN + BigInt(this.#fresh.length) > this.#epoch.lastN(this.#shard);
    return !this.#again && isAllInMemory && !this.#isBatchFull && !this.#isFlushing;
  }

  async #take(): Promise<Batch | undefined> {
    return this.#again ? await this.#takeAgain(this.#again) : await this.#takeNext();
  }

  async #takeAgain(again: { readonly fromN: bigint; readonly toN: bigint }): Promise<Batch | undefined> {
    const fromN = again.fromN > this.#ackedN ? again.fromN : this.#ackedN + 1n;
    const events = fromN > again.toN ? [] : await this.#epoch.read(this.#shard, fromN, MAX_BATCH_BYTES);
    // More is to be sent again than when this was read.
    if (this.#again !== again) return undefined;
    const batch = nextBatch(events.filter(({ n }) => n <= again.toN));
    const nextN = batch ? lastNOf(batch) + 1n : again.toN + 1n;
    this.#again = nextN > again.toN ? undefined : { ...again, fromN: nextN };
    return batch;
  }

  async #takeNext(): Promise<Batch | undefined> {
    if (this.#fresh.length === 0) await this.#readFresh();
    if (this.#again) return undefined;
    const batch = nextBatch(this.#fresh);
    if (!batch) return undefined;
    this.#nextN = lastNOf(batch) + 1n;
    this.#freshBytes -= bytesOf(this.#fresh.splice(0, batch.length));
    return batch;
  }

  async #readFresh(): Promise<void> {
    const last = this.#epoch.lastN(this.#shard);
    const from = this.#nextN;
    const events = await this.#epoch.read(this.#shard, from, MAX_BATCH_BYTES);
    // Confirmed meanwhile.
    if (this.#nextN !== from) return;
    // What the spool lost of a damaged file is passed over.
    this.#nextN = events[0]?.n ?? last + 1n;
    this.#fresh = [...events];
    this.#freshBytes = bytesOf(events);
  }

  /** The same id on every try: a batch that was stored although its answer got lost is recognised. */
  async #sendUntilStored(batch: Batch): Promise<void> {
    const id = this.#deps.newBatchId();
    const payload = encodeBatch(this.#epoch, batch);
    let pauseMs = 0;
    while (!this.#isStopped && lastNOf(batch) > this.#ackedN) {
      try {
        this.#stored(batch, await this.#deps.stream.publish(this.#shard, id, payload));
        return;
      } catch (error) {
        if (error instanceof MessageTooLargeError && batch.length > 1) return await this.#sendHalves(batch);
        this.#complain(error, 'usage could not be handed over; trying again');
        pauseMs = this.#longer(pauseMs);
        await this.#nap.sleep({ until: 'stop', ms: pauseMs });
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

  #stored(batch: Batch, { streamId, sequence }: MessagePosition): void {
    const [{ n: firstN }] = batch;
    const lastN = lastNOf(batch);
    const unconfirmed = this.#unconfirmed;
    if (unconfirmed.streamId === undefined) unconfirmed.restart(streamId);
    else if (streamId !== unconfirmed.streamId || sequence <= unconfirmed.highestSequence) {
      this.#sendAllAgain(streamId, 'the usage stream is not what it was');
    }
    const isDue = this.#again && firstN >= this.#again.fromN && lastN <= this.#again.toN;
    if (isDue || lastN <= this.#ackedN) return;
    if (unconfirmed.size === 0) this.#progressAtMs = this.#deps.nowMs();
    unconfirmed.add({ firstN, lastN, sequence });
  }

  /** Whoever reads the stream is through with a batch, and the ledger does not have it. */
  #suspectHandled(handledUpTo: bigint): void {
    const handledN = this.#unconfirmed.handledN(handledUpTo);
    const nowMs = this.#deps.nowMs();
    if (handledN === undefined) return;
    // Asked for at this look, the confirm may still come.
    this.#suspicion ??= { handledN, sinceMs: nowMs };
    if (nowMs - this.#suspicion.sinceMs < this.#graceMs) return;
    this.#sendAgain(this.#suspicion.handledN, 'usage was handled and is not in the ledger');
    this.#graceMs = Math.min(this.#graceMs * 2, MAX_GRACE_MS);
  }

  #sendAllAgain(streamId: string, why: string): void {
    this.#unconfirmed.restart(streamId);
    this.#sendAgain(this.#nextN - 1n, why);
  }

  #sendAgain(toN: bigint, why: string): void {
    const fromN = this.#ackedN + 1n;
    const to = this.#again && this.#again.toN > toN ? this.#again.toN : toN;
    this.#suspicion = undefined;
    if (fromN > to) return;
    this.#unconfirmed.forgetUpTo(to);
    this.#again = { fromN, toN: to };
    const { epoch } = this.#epoch;
    const range = { shard: this.#shard, fromN: String(fromN), toN: String(to) };
    this.#deps.logger.warn({ epoch, ...range }, `${why}; sending it again`);
    this.#nap.rouse('full');
  }

  #forgetFresh(): void {
    this.#fresh = [];
    this.#freshBytes = 0;
  }

  #longer(pauseMs: number): number {
    const { retryMinMs, retryMaxMs } = this.#deps.timing;
    return Math.min(Math.max(pauseMs * 2, retryMinMs), retryMaxMs);
  }

  /** Once a minute: what goes on for hours must not fill the log. */
  #complain(error: unknown, what: string): void {
    const nowMs = this.#deps.nowMs();
    if (nowMs - this.#loggedAtMs < LOG_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    const isTooLarge = error instanceof MessageTooLargeError;
    const hint = isTooLarge ? '. One event is larger than NATS takes: raise its max_payload' : '';
    this.#deps.logger.warn({ err: error, shard: this.#shard, epoch: this.#epoch.epoch }, what + hint);
  }
}

function bytesOf(events: readonly SettledEvent[]): number {
  return events.reduce((sum, { bytes }) => sum + bytes.length, 0);
}
