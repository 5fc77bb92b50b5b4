import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { MessagePosition, StreamPosition, Subscription, UsageStream } from '@weighbridge/bus';
import {
  MAX_USAGE_SHARDS,
  USAGE_SHARDS,
  type UsageBatch,
  UsageBatchSchema,
  UsageConfirmQuerySchema,
  UsageConfirmsSchema,
} from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';

/** The probability of each fault. */
export interface Faults {
  readonly refused: number;
  readonly replyLost: number;
  readonly messageLost: number;
  readonly ackLost: number;
  readonly duplicated: number;
}

export const NO_FAULTS: Faults = {
  refused: 0,
  replyLost: 0,
  messageLost: 0,
  ackLost: 0,
  duplicated: 0,
};

interface Message {
  readonly shard: number;
  readonly sequence: bigint;
  readonly payload: Uint8Array;
}

/** A stream that loses messages, and a ledger behind it that does not. */
export class LossyStream implements UsageStream {
  faults: Faults = NO_FAULTS;
  isAway = false;
  /** No one reads the stream. */
  isIdle = false;
  /** Batches that were published, refused ones too. */
  published = 0;
  readonly batches: UsageBatch[] = [];
  /** The ledger's events by number, for each epoch and shard. */
  readonly #ledger = new Map<string, Map<bigint, Uint8Array>>();
  readonly #random: () => number;
  readonly #listeners = new Map<string, Set<(payload: Uint8Array) => void>>();
  readonly #reconnects = new Set<() => void>();
  readonly #ids = new Map<string, MessagePosition>();
  #messages: Message[] = [];
  #streamId = newUuid();
  #lastSequence = 0n;
  readonly #reading = setInterval(() => this.#read(), 1);

  constructor(random: () => number) {
    this.#random = random;
  }

  async publish(
    shard: number,
    _producerId: string,
    messageId: string,
    payload: Uint8Array,
  ): Promise<MessagePosition> {
    this.published++;
    await this.#delay();
    if (this.isAway || this.#happens('refused')) throw new Error('the stream does not answer');
    const known = this.#ids.get(messageId);
    const stored = known ?? this.#store(shard, payload);
    this.#ids.set(messageId, stored);
    if (this.#happens('replyLost')) throw new Error('the reply was lost');
    return stored;
  }

  async position(shards = USAGE_SHARDS): Promise<StreamPosition> {
    await this.#delay();
    if (this.isAway) throw new Error('the stream does not answer');
    const handledUpTo = Array.from({ length: shards }, (_, shard) => {
      const next = this.#messages.find((message) => message.shard === shard);
      return next ? next.sequence - 1n : this.#lastSequence;
    });
    return { streamId: this.#streamId, lastSequence: this.#lastSequence, handledUpTo };
  }

  /** The stream is deleted and created again. */
  recreate(): void {
    this.#messages = [];
    this.#streamId = newUuid();
    this.#lastSequence = 0n;
    this.#ids.clear();
  }

  /** The server is restored from an older state. */
  goBack(): void {
    const back = BigInt(Math.floor(this.#random() * 20));
    this.#lastSequence = this.#lastSequence > back ? this.#lastSequence - back : 0n;
    this.#messages = this.#messages.filter(({ sequence }) => sequence <= this.#lastSequence);
    this.#ids.clear();
    this.comeBack();
  }

  comeBack(): void {
    this.isAway = false;
    for (const notify of this.#reconnects) notify();
  }

  onAck(producerId: string, handle: (payload: Uint8Array) => void): Subscription {
    const listeners = this.#listeners.get(producerId) ?? new Set();
    this.#listeners.set(producerId, listeners.add(handle));
    return { stop: async () => void listeners.delete(handle) };
  }

  requestAck(payload: Uint8Array): void {
    const { producerId, epochs } = fromBinary(UsageConfirmQuerySchema, payload);
    for (const epoch of epochs)
      for (let shard = 0; shard < MAX_USAGE_SHARDS; shard++) this.#sendAck(producerId, epoch, shard);
  }

  announce(): void {}

  onReconnect(handle: () => void): Subscription {
    this.#reconnects.add(handle);
    return { stop: async () => void this.#reconnects.delete(handle) };
  }

  /** The number up to which the ledger has all events. */
  recordedN(epoch: string, shard: number): bigint {
    const events = this.#ledger.get(`${epoch}/${shard}`);
    let n = 0n;
    while (events?.has(n + 1n)) n++;
    return n;
  }

  /** The ledger's events, by number. */
  recorded(epoch: string, shard: number): ReadonlyMap<bigint, Uint8Array> {
    return this.#ledger.get(`${epoch}/${shard}`) ?? new Map();
  }

  sendAck(): void {}
  sendRefusals(): void {}
  onRefusals(): Subscription {
    return { stop: async () => {} };
  }
  async shardsInUse(): Promise<readonly number[]> {
    return [];
  }
  async consume(): Promise<Subscription> {
    return { stop: async () => {} };
  }
  onAckRequest(): Subscription {
    return { stop: async () => {} };
  }
  async close(): Promise<void> {
    clearInterval(this.#reading);
  }

  #store(shard: number, payload: Uint8Array): MessagePosition {
    const sequence = ++this.#lastSequence;
    if (!this.#happens('messageLost')) this.#messages.push({ shard, sequence, payload });
    return { streamId: this.#streamId, sequence };
  }

  /** Metering's side; reads messages in random order. */
  #read(): void {
    for (let reads = 0; reads < 4 && this.#messages.length > 0 && !this.isAway && !this.isIdle; reads++) {
      const at = Math.floor(this.#random() * Math.min(3, this.#messages.length));
      const message = this.#messages[at];
      if (!message) return;
      const batch = fromBinary(UsageBatchSchema, message.payload);
      this.batches.push(batch);
      const name = `${batch.epoch}/${batch.shard}`;
      const events = this.#ledger.get(name) ?? new Map();
      this.#ledger.set(name, events);
      for (const [index, event] of batch.events.entries()) events.set(batch.firstN + BigInt(index), event);
      this.#sendAck(batch.producerId, batch.epoch, batch.shard);
      if (!this.#happens('duplicated')) this.#messages.splice(this.#messages.indexOf(message), 1);
    }
  }

  /** Delayed at random, so that acks overtake each other. */
  #sendAck(producerId: string, epoch: string, shard: number): void {
    if (this.#happens('ackLost')) return;
    const confirm = { producerId, epoch, shard, n: this.recordedN(epoch, shard) };
    const payload = toBinary(UsageConfirmsSchema, create(UsageConfirmsSchema, { confirms: [confirm] }));
    const listeners = [...(this.#listeners.get(producerId) ?? [])];
    setTimeout(() => {
      if (!this.isAway) for (const listener of listeners) listener(payload);
    }, this.#random() * 5);
  }

  #happens(fault: keyof Faults): boolean {
    return this.#random() < this.faults[fault];
  }

  #delay(): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, this.#random() * 2);
    });
  }
}
