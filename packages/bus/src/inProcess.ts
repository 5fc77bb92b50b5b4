import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { createConsumptions, createListeners, type Listeners } from './consumptions.ts';
import { createGathering, type Gathering } from './gathering.ts';
import {
  MessageTooLargeError,
  pauseAfter,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

export interface InProcessOptions extends UsageStreamEvents {
  /** What may wait to be consumed, over all shards, before `publish` rejects. */
  readonly maxBytes?: number;
}

interface QueuedMessage extends UsageMessage {
  readonly sequence: bigint;
}

interface Shard {
  readonly queue: Gathering<QueuedMessage>;
  /** Sequences that are not handled yet, the lowest first. */
  readonly pending: Set<bigint>;
  lastSequence: bigint;
}

/** The usage stream of embedded mode: publisher and reader share a process, and so a queue. It keeps nothing over its end. */
export function createInProcessUsageStream(options: InProcessOptions): UsageStream {
  const maxBytes = options.maxBytes ?? DEFAULT_MAX_BYTES;
  const streamId = randomUUID();
  const shards = Array.from({ length: USAGE_SHARDS }, createShard);
  const consumptions = createConsumptions();
  const onListenerError = (error: unknown) => options.onError(error, 'a confirm of usage was not handled');
  const confirms = new Map<string, Listeners<[Uint8Array]>>();
  const queries = createListeners<[Uint8Array]>(onListenerError);
  let lastSequence = 0n;
  let bytes = 0;
  let closed = false;
  let lastError: unknown;

  const confirmsOf = (producerId: string): Listeners<[Uint8Array]> => {
    const listeners = confirms.get(producerId) ?? createListeners<[Uint8Array]>(onListenerError);
    confirms.set(producerId, listeners);
    return listeners;
  };

  return {
    async publish(number, _messageId, payload, traceparent) {
      if (closed) throw new Error('the usage stream is closed');
      if (payload.length > maxBytes) {
        throw new MessageTooLargeError(`the usage stream takes no message of ${payload.length} bytes`);
      }
      if (bytes + payload.length > maxBytes) throw new Error('the usage stream is full');
      const shard = shardAt(shards, number);
      const sequence = ++lastSequence;
      bytes += payload.length;
      shard.lastSequence = sequence;
      shard.pending.add(sequence);
      shard.queue.add({ payload, sequence, traceparent });
      return { streamId, sequence };
    },

    async consume(number, handle) {
      const shard = shardAt(shards, number);
      return consumptions.start(async (signal) => {
        let failures = 0;
        for (;;) {
          const batch = await shard.queue.take(signal);
          // Nobody else will read what is queued here, so it is handled before the end.
          if (batch.length === 0) return;
          try {
            await handle(batch);
            failures = 0;
            for (const message of batch) {
              bytes -= message.payload.length;
              shard.pending.delete(message.sequence);
            }
          } catch (error) {
            lastError = error;
            options.onError(error, 'a batch of usage was not handled and will be tried again');
            shard.queue.putBack(batch);
            // What is left is for the next reader, here or after the next start.
            if (signal.aborted) return;
            await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
          }
        }
      });
    },

    async position() {
      return { streamId, lastSequence, handledUpTo: shards.map(handledUpTo) };
    },

    confirm(producerId, payload) {
      setImmediate(() => confirms.get(producerId)?.tell(payload));
    },
    onConfirm: (producerId, handle) => confirmsOf(producerId).add(handle),

    askConfirm(payload) {
      setImmediate(() => queries.tellOne(payload));
    },
    onConfirmQuery: (handle) => queries.add(handle),

    // In one process nobody listens: the audit log tells.
    announce: () => {},

    // There is no connection that could be lost.
    onReconnect: () => ({ stop: async () => {} }),

    async close() {
      closed = true;
      await consumptions.stopAll();
      const unhandled = shards.reduce((sum, shard) => sum + shard.queue.size, 0);
      if (unhandled > 0) {
        options.onError(
          lastError,
          `${unhandled} messages of usage were not handled: the spool keeps them for the next start`,
        );
      }
    },
  };
}

function createShard(): Shard {
  return {
    queue: createGathering<QueuedMessage>((message) => message.payload.length),
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
