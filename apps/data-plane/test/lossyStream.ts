import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import type { MessagePosition, StreamPosition, Subscription, UsageStream } from '@weighbridge/bus';
import {
  USAGE_SHARDS,
  type UsageBatch,
  UsageBatchSchema,
  UsageConfirmQuerySchema,
  UsageConfirmsSchema,
} from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';

/** What may go wrong, each with its probability. */
export interface Faults {
  readonly refused: number;
  readonly answerLost: number;
  readonly messageLost: number;
  readonly confirmLost: number;
  readonly duplicated: number;
}

export const NO_FAULTS: Faults = {
  refused: 0,
  answerLost: 0,
  messageLost: 0,
  confirmLost: 0,
  duplicated: 0,
};

interface Message {
  readonly shard: number;
  readonly sequence: bigint;
  readonly payload: Uint8Array;
}

/** A stream that loses what it took, and behind it a ledger that does not. */
export class LossyStream implements UsageStream {
  faults: Faults = NO_FAULTS;
  isAway = false;
  /** Nobody reads the stream. */
  isIdle = false;
  /** Batches that were published, refused ones too. */
  published = 0;
  readonly batches: UsageBatch[] = [];
  /** The numbers that the ledger has, by epoch and shard. */
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

  async publish(shard: number, messageId: string, payload: Uint8Array): Promise<MessagePosition> {
    this.published++;
    await this.#delay();
    if (this.isAway || this.#happens('refused')) throw new Error('the stream does not answer');
    const known = this.#ids.get(messageId);
    const stored = known ?? this.#store(shard, payload);
    this.#ids.set(messageId, stored);
    if (this.#happens('answerLost')) throw new Error('the answer was lost');
    return stored;
  }

  async position(): Promise<StreamPosition> {
    await this.#delay();
    if (this.isAway) throw new Error('the stream does not answer');
    const handledUpTo = Array.from({ length: USAGE_SHARDS }, (_, shard) => {
      const next = this.#messages.find((message) => message.shard === shard);
      return next ? next.sequence - 1n : this.#lastSequence;
    });
    return { streamId: this.#streamId, lastSequence: this.#lastSequence, handledUpTo };
  }

  /** The stream was deleted, and is there again. */
  recreate(): void {
    this.#messages = [];
    this.#streamId = newUuid();
    this.#lastSequence = 0n;
    this.#ids.clear();
  }

  /** The server came back with an older store. */
  goBack(): void {
    const back = BigInt(Math.floor(this.#random() * 20));
    this.#lastSequence = this.#lastSequence > back ? this.#lastSequence - back : 0n;
    this.#messages = this.#messages.filter(({ sequence }) => sequence <= this.#lastSequence);
    this.#ids.clear();
    this.comeBack();
  }

  comeBack(): void {
    this.isAway = false;
    for (const tell of this.#reconnects) tell();
  }

  onAck(producerId: string, handle: (payload: Uint8Array) => void): Subscription {
    const listeners = this.#listeners.get(producerId) ?? new Set();
    this.#listeners.set(producerId, listeners.add(handle));
    return { stop: async () => void listeners.delete(handle) };
  }

  requestAck(payload: Uint8Array): void {
    const { producerId, epochs } = fromBinary(UsageConfirmQuerySchema, payload);
    for (const epoch of epochs)
      for (let shard = 0; shard < USAGE_SHARDS; shard++) this.#tell(producerId, epoch, shard);
  }

  announce(): void {}

  onReconnect(handle: () => void): Subscription {
    this.#reconnects.add(handle);
    return { stop: async () => void this.#reconnects.delete(handle) };
  }

  /** Up to which number the ledger has all. */
  recordedN(epoch: string, shard: number): bigint {
    const events = this.#ledger.get(`${epoch}/${shard}`);
    let n = 0n;
    while (events?.has(n + 1n)) n++;
    return n;
  }

  /** What the ledger has, by number. */
  recorded(epoch: string, shard: number): ReadonlyMap<bigint, Uint8Array> {
    return this.#ledger.get(`${epoch}/${shard}`) ?? new Map();
  }

  sendAck(): void {}
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

  /** What metering does, in no order that could be relied on. */
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
      this.#tell(batch.producerId, batch.epoch, batch.shard);
      if (!this.#happens('duplicated')) this.#messages.splice(this.#messages.indexOf(message), 1);
    }
  }

  /** Told late, so that confirms overtake each other. */
  #tell(producerId: string, epoch: string, shard: number): void {
    if (this.#happens('confirmLost')) return;
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
