import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Consumption,
  MAX_BATCH_MESSAGES,
  REDELIVERY_PAUSE_MS,
  type UsageMessage,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

export interface InProcessOptions extends UsageStreamEvents {
  /** What may wait to be consumed, over all shards, before `publish` rejects. */
  readonly maxBytes?: number;
}

interface Shard {
  readonly queue: UsageMessage[];
  wake: () => void;
}

/** The usage stream of embedded mode: publisher and reader share a process, and so a queue. */
export function createInProcessUsageStream(options: InProcessOptions): UsageStream {
  const maxBytes = options.maxBytes ?? 256 * 1024 * 1024;
  const shards = new Map<number, Shard>();
  const consumptions = new Set<Consumption>();
  let bytes = 0;
  let closed = false;

  const shardOf = (shard: number): Shard => {
    const known = shards.get(shard) ?? { queue: [], wake: () => {} };
    shards.set(shard, known);
    return known;
  };

  return {
    async publish(shard, _messageId, payload) {
      if (closed) throw new Error('the usage stream is closed');
      if (bytes + payload.length > maxBytes) throw new Error('the usage stream is full');
      bytes += payload.length;
      const { queue, wake } = shardOf(shard);
      queue.push({ payload });
      wake();
    },

    async consume(number, handle) {
      const shard = shardOf(number);
      const stopping = new AbortController();
      const { signal } = stopping;

      const run = async (): Promise<void> => {
        // Nobody else will read what is queued here, so it is handled before the end.
        while (!signal.aborted || shard.queue.length > 0) {
          if (shard.queue.length === 0) {
            await new Promise<void>((resolve) => {
              shard.wake = resolve;
              signal.addEventListener('abort', () => resolve(), { once: true });
            });
            continue;
          }
          const batch = shard.queue.slice(0, MAX_BATCH_MESSAGES);
          try {
            await handle(batch);
            shard.queue.splice(0, batch.length);
            for (const message of batch) bytes -= message.payload.length;
          } catch (error) {
            options.onError(error, 'a batch of usage was not handled and will be tried again');
            if (signal.aborted) return;
            await sleep(REDELIVERY_PAUSE_MS, undefined, { signal }).catch(() => {});
          }
        }
      };

      const running = run();
      const consumption: Consumption = {
        async stop() {
          stopping.abort();
          await running;
          consumptions.delete(consumption);
        },
      };
      consumptions.add(consumption);
      return consumption;
    },

    async close() {
      closed = true;
      await Promise.all([...consumptions].map((consumption) => consumption.stop()));
    },
  };
}
