import { setTimeout as sleep } from 'node:timers/promises';
import { createConsumptions } from './consumptions.ts';
import { createGathering, type Gathering } from './gathering.ts';
import {
  MAX_BATCH_MESSAGES,
  MessageTooLargeError,
  REDELIVERY_PAUSE_MS,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

export interface InProcessOptions extends UsageStreamEvents {
  /** What may wait to be consumed, over all shards, before `publish` rejects. */
  readonly maxBytes?: number;
}

/** The usage stream of embedded mode: publisher and reader share a process, and so a queue. */
export function createInProcessUsageStream(options: InProcessOptions): UsageStream {
  const maxBytes = options.maxBytes ?? 256 * 1024 * 1024;
  const shards = new Map<number, Gathering<UsageMessage>>();
  const consumptions = createConsumptions();
  let bytes = 0;
  let closed = false;
  let lastError: unknown;

  const shardOf = (number: number): Gathering<UsageMessage> => {
    const shard = shards.get(number) ?? createGathering<UsageMessage>();
    shards.set(number, shard);
    return shard;
  };

  return {
    async publish(number, _messageId, payload) {
      if (closed) throw new Error('the usage stream is closed');
      if (payload.length > maxBytes) {
        throw new MessageTooLargeError(`the usage stream takes no message of ${payload.length} bytes`);
      }
      if (bytes + payload.length > maxBytes) throw new Error('the usage stream is full');
      bytes += payload.length;
      shardOf(number).add({ payload });
    },

    async consume(number, handle) {
      const shard = shardOf(number);
      return consumptions.start(async (signal) => {
        for (;;) {
          const batch = await shard.take(MAX_BATCH_MESSAGES, signal);
          // Nobody else will read what is queued here, so it is handled before the end.
          if (batch.length === 0) return;
          try {
            await handle(batch);
            for (const message of batch) bytes -= message.payload.length;
          } catch (error) {
            lastError = error;
            options.onError(error, 'a batch of usage was not handled and will be tried again');
            shard.putBack(batch);
            // What is left is for the next reader, or lost when the stream is closed.
            if (signal.aborted) return;
            await sleep(REDELIVERY_PAUSE_MS, undefined, { signal }).catch(() => {});
          }
        }
      });
    },

    async close() {
      closed = true;
      await consumptions.stopAll();
      const lost = [...shards.values()].reduce((sum, shard) => sum + shard.size, 0);
      if (lost > 0) options.onError(lastError, `${lost} messages of usage were not handled and are lost`);
    },
  };
}
