import { signBatch } from '../signature/batchSignature.ts';
import type { SettledEvent, SpoolEpoch } from '../spool/types.ts';

export const MAX_BATCH_EVENTS = 256;
export const MAX_BATCH_BYTES = 512 * 1024;

/** At least one event of one epoch and shard, numbered without gaps. */
export type Batch = readonly [SettledEvent, ...SettledEvent[]];

/** The leading events that fit in one message, at least one; undefined if there are none. */
function nextBatch(events: readonly SettledEvent[]): Batch | undefined {
  const [first, ...others] = events.slice(0, MAX_BATCH_EVENTS);
  if (!first) return undefined;
  const batch: [SettledEvent, ...SettledEvent[]] = [first];
  let bytes = first.bytes.length;
  for (const event of others) {
    bytes += event.bytes.length;
    if (bytes > MAX_BATCH_BYTES) break;
    batch.push(event);
  }
  return batch;
}

export function lastNOf(batch: Batch): bigint {
  return batch[0].n + BigInt(batch.length) - 1n;
}

/** The signed stream message. The events are embedded as they are, without decoding. */
export function encodeBatch({ producerId, epoch, key }: SpoolEpoch, batch: Batch): Uint8Array {
  const [{ shard, n }] = batch;
  const events = batch.map(({ bytes }) => bytes);
  return signBatch({ producerId, epoch, shard, firstN: n, events }, key);
}

/** Events held in memory; the rest is read back from the spool when its turn comes. */
const MAX_FRESH_BYTES = 8 * 1024 * 1024;

export interface NumberRange {
  readonly fromN: bigint;
  readonly toN: bigint;
}

/** The events of one shard of an epoch in the order in which to send them: those to resend, then those never sent. */
export class ShardQueue {
  readonly #epoch: SpoolEpoch;
  readonly #shard: number;
  /** The first number that was never sent. */
  #nextN: bigint;
  #resend: NumberRange | undefined;
  /** Events from `#nextN` on that need not be read back. */
  #fresh: SettledEvent[] = [];
  #freshBytes = 0;

  constructor(epoch: SpoolEpoch, shard: number) {
    this.#epoch = epoch;
    this.#shard = shard;
    this.#nextN = epoch.ackedN(shard) + 1n;
  }

  get isEmpty(): boolean {
    return this.#resend === undefined && this.#nextN > this.#epoch.lastN(this.#shard);
  }

  get isBatchFull(): boolean {
    return this.#fresh.length >= MAX_BATCH_EVENTS || this.#freshBytes >= MAX_BATCH_BYTES;
  }

  /** Its next batch would contain the last event and is not full, so a later event may still join it. */
  get canGrow(): boolean {
    const isAllFresh = this.#nextN + BigInt(this.#fresh.length) > this.#epoch.lastN(this.#shard);
    return !this.#resend && isAllFresh && !this.isBatchFull;
  }

  /** The last number that was sent. */
  get sentN(): bigint {
    return this.#nextN - 1n;
  }

  /** An event that was just settled; held in memory if it is next in order and fits. */
  add(event: SettledEvent): void {
    const next = this.#nextN + BigInt(this.#fresh.length);
    if (event.n !== next || this.#freshBytes + event.bytes.length > MAX_FRESH_BYTES) return;
    this.#fresh.push(event);
    this.#freshBytes += event.bytes.length;
  }

  /** The ledger has everything up to `n`. Events that an earlier run sent are skipped. */
  skipTo(n: bigint): void {
    if (this.#nextN > n) return;
    this.#nextN = n + 1n;
    this.#fresh = [];
    this.#freshBytes = 0;
  }

  /** Queues everything unacked up to `toN` to be sent again. Undefined if there is nothing. */
  resendUpTo(toN: bigint): NumberRange | undefined {
    const fromN = this.#ackedN + 1n;
    const to = this.#resend && this.#resend.toN > toN ? this.#resend.toN : toN;
    if (fromN > to) return undefined;
    this.#resend = { fromN, toN: to };
    return this.#resend;
  }

  isToResend(batch: Batch): boolean {
    if (!this.#resend) return false;
    return batch[0].n >= this.#resend.fromN && lastNOf(batch) <= this.#resend.toN;
  }

  /** Undefined if an ack or a resend changed what is next; call it again. */
  async take(): Promise<Batch | undefined> {
    return this.#resend ? await this.#takeResend(this.#resend) : await this.#takeFresh();
  }

  async #takeResend(range: NumberRange): Promise<Batch | undefined> {
    const fromN = range.fromN > this.#ackedN ? range.fromN : this.#ackedN + 1n;
    const events = fromN > range.toN ? [] : await this.#epoch.read(this.#shard, fromN, MAX_BATCH_BYTES);
    // The range was extended during the read.
    if (this.#resend !== range) return undefined;
    const batch = nextBatch(events.filter(({ n }) => n <= range.toN));
    const nextN = batch ? lastNOf(batch) + 1n : range.toN + 1n;
    this.#resend = nextN > range.toN ? undefined : { ...range, fromN: nextN };
    return batch;
  }

  async #takeFresh(): Promise<Batch | undefined> {
    if (this.#fresh.length === 0) await this.#readFresh();
    if (this.#resend) return undefined;
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
    // Acked during the read.
    if (this.#nextN !== from) return;
    // Skips events that a damaged file lost.
    this.#nextN = events[0]?.n ?? last + 1n;
    this.#fresh = [...events];
    this.#freshBytes = bytesOf(events);
  }

  get #ackedN(): bigint {
    return this.#epoch.ackedN(this.#shard);
  }
}

function bytesOf(events: readonly SettledEvent[]): number {
  return events.reduce((sum, { bytes }) => sum + bytes.length, 0);
}
