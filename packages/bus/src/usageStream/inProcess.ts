import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import { type BatchBuffer, createBatchBuffer } from './batchBuffer.ts';
import { createListeners, createSubscriptions, type Listeners } from './subscriptions.ts';
import {
  BATCH_FAILED,
  LISTENER_FAILED,
  type MessagePosition,
  MessageTooLargeError,
  pauseAfter,
  type StreamPosition,
  type Subscription,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

export interface InProcessOptions extends UsageStreamEvents {
  /** How many bytes may wait to be consumed, over all shards, before `publish` rejects. Default: 64 MiB. */
  readonly maxBytes?: number;
}

interface QueuedMessage extends UsageMessage {
  readonly sequence: bigint;
}

interface Shard {
  readonly queue: BatchBuffer<QueuedMessage>;
  /** Sequences that are not handled yet, the lowest first. */
  readonly pending: Set<bigint>;
  lastSequence: bigint;
}

type BatchHandler = Parameters<UsageStream['consume']>[1];

/** The usage stream of embedded mode: a queue in memory. What is in it when the process ends is still in the spool. */
export function createInProcessUsageStream(options: InProcessOptions): UsageStream {
  return new InProcessUsageStream(options);
}

class InProcessUsageStream implements UsageStream {
  readonly #onError: UsageStreamEvents['onError'];
  readonly #maxBytes: number;
  readonly #streamId = randomUUID();
  readonly #shards = Array.from({ length: MAX_USAGE_SHARDS }, createShard);
  readonly #subscriptions = createSubscriptions();
  readonly #ackListeners = new Map<string, Listeners<[Uint8Array]>>();
  readonly #ackRequestListeners = this.#createAckListeners();
  readonly #refusalListeners = createListeners<[Uint8Array, string]>((error) =>
    this.#onError(error, LISTENER_FAILED),
  );
  #lastSequence = 0n;
  #bytes = 0;
  #isClosed = false;
  #lastError: unknown;

  constructor({ onError, maxBytes = DEFAULT_MAX_BYTES }: InProcessOptions) {
    this.#onError = onError;
    this.#maxBytes = maxBytes;
  }

  async publish(
    number: number,
    producerId: string,
    _messageId: string,
    payload: Uint8Array,
    traceparent?: string,
  ): Promise<MessagePosition> {
    if (this.#isClosed) throw new Error('the usage stream is closed');
    if (payload.length > this.#maxBytes) {
      throw new MessageTooLargeError(
        `a message of ${payload.length} bytes is larger than the usage stream accepts`,
      );
    }
    if (this.#bytes + payload.length > this.#maxBytes) throw new Error('the usage stream is full');
    const shard = shardAt(this.#shards, number);
    const sequence = ++this.#lastSequence;
    this.#bytes += payload.length;
    shard.lastSequence = sequence;
    shard.pending.add(sequence);
    shard.queue.add({ producerId, payload, sequence, traceparent });
    return { streamId: this.#streamId, sequence };
  }

  async consume(number: number, handle: BatchHandler): Promise<Subscription> {
    const shard = shardAt(this.#shards, number);
    return this.#subscriptions.start((signal) => this.#readShard(shard, handle, signal));
  }

  async #readShard(shard: Shard, handle: BatchHandler, signal: AbortSignal): Promise<void> {
    let failures = 0;
    for (;;) {
      const batch = await shard.queue.take(signal);
      // After the signal too, what is queued is handled: no other process can read it.
      if (batch.length === 0) return;
      if (await this.#handleBatch(shard, handle, batch)) failures = 0;
      // What is left is for the next reader, in this process or after the next start.
      else if (signal.aborted) return;
      else await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
    }
  }

  async #handleBatch(shard: Shard, handle: BatchHandler, batch: readonly QueuedMessage[]): Promise<boolean> {
    try {
      await handle(batch);
      for (const message of batch) {
        this.#bytes -= message.payload.length;
        shard.pending.delete(message.sequence);
      }
      return true;
    } catch (error) {
      this.#lastError = error;
      this.#onError(error, BATCH_FAILED);
      shard.queue.putBack(batch);
      return false;
    }
  }

  async position(shards = USAGE_SHARDS): Promise<StreamPosition> {
    return {
      streamId: this.#streamId,
      lastSequence: this.#lastSequence,
      handledUpTo: this.#shards.slice(0, shards).map(handledUpTo),
    };
  }

  async shardsInUse(): Promise<readonly number[]> {
    return this.#shards.flatMap(({ lastSequence }, shard) => (lastSequence > 0n ? [shard] : []));
  }

  sendAck(producerId: string, payload: Uint8Array): void {
    setImmediate(() => this.#ackListeners.get(producerId)?.notifyAll(payload));
  }

  onAck(producerId: string, handle: (payload: Uint8Array) => void): Subscription {
    const listeners = this.#ackListeners.get(producerId) ?? this.#createAckListeners();
    this.#ackListeners.set(producerId, listeners);
    return listeners.add(handle);
  }

  requestAck(payload: Uint8Array): void {
    setImmediate(() => this.#ackRequestListeners.notifyOne(payload));
  }

  onAckRequest(handle: (payload: Uint8Array) => void): Subscription {
    return this.#ackRequestListeners.add(handle);
  }

  sendRefusals(producerId: string, payload: Uint8Array): void {
    setImmediate(() => this.#refusalListeners.notifyOne(payload, producerId));
  }

  onRefusals(handle: (payload: Uint8Array, producerId: string) => void): Subscription {
    return this.#refusalListeners.add(handle);
  }

  /** In one process there is no other listener; the audit log has the same. */
  announce(): void {}

  /** There is no connection to lose. */
  onReconnect(): Subscription {
    return { stop: async () => {} };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#subscriptions.stopAll();
    const unhandled = this.#shards.reduce((sum, shard) => sum + shard.queue.size, 0);
    if (unhandled > 0) {
      this.#onError(
        this.#lastError,
        `closed with ${unhandled} unhandled messages of usage; the spool sends them again after the next start`,
      );
    }
  }

  #createAckListeners(): Listeners<[Uint8Array]> {
    return createListeners((error) => this.#onError(error, LISTENER_FAILED));
  }
}

function createShard(): Shard {
  return {
    queue: createBatchBuffer<QueuedMessage>((message) => message.payload.length),
    pending: new Set(),
    lastSequence: 0n,
  };
}

function shardAt(shards: readonly Shard[], number: number): Shard {
  const shard = shards[number];
  if (!shard) throw new Error(`the usage stream has no shard ${number}`);
  return shard;
}

function handledUpTo({ pending, lastSequence }: Shard): bigint {
  const [lowest] = pending;
  return lowest === undefined ? lastSequence : lowest - 1n;
}
