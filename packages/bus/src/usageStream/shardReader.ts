import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, ConsumerInfo, JetStreamClient, JsMsg } from '@nats-io/jetstream';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { type BatchBuffer, createBatchBuffer } from './batchBuffer.ts';
import { senderOf } from './subjects.ts';
import { BATCH_FAILED, pauseAfter, type UsageMessage, type UsageStreamEvents } from './usageStream.ts';

/**
 * The size of a fetch; the next one is sent when these messages are here and the buffer has space. So the memory of a shard
 * is bounded by a multiple of its largest message, and that of many shards by the same. A fetch has a fixed cost, so it is larger while
 * messages are small.
 */
const MIN_FETCH_MESSAGES = 64;
const MAX_FETCH_MESSAGES = 256;
const SMALL_FETCH_BYTES = 1024 * 1024;
/**
 * NATS sends two heartbeats within this time, so the client notices a fetch that the server has lost. A stopping reader
 * waits for its fetch to end: messages that NATS sends to an abandoned fetch are redelivered only after the ack time-out of
 * a minute, and the proxies' usage is incomplete until then.
 */
const FETCH_TIMEOUT_MS = 1_000;

/** Well below the second in which usage has to be visible. */
const LINGER_MS = 100;

/** The message header with the publisher's span. */
export const TRACEPARENT = 'traceparent';

/** The payload is read once: `message.data` creates a new view on each access. */
interface Arrived extends UsageMessage {
  readonly message: JsMsg;
}

export interface ReaderDeps extends UsageStreamEvents {
  readonly client: JetStreamClient;
  /** Undefined: `ensure` is called first. */
  readonly consumer: ConsumerInfo | undefined;
  /** Creates the stream and the shard's consumer if they are missing, or waits for them until the signal aborts. */
  readonly ensure: (signal: AbortSignal) => Promise<ConsumerInfo>;
  /** How many shards this process reads. */
  readonly readers: () => number;
}

/**
 * Reads a shard until the signal aborts; resolves when the current batch is handled. Messages are received while a batch is
 * handled, so that the next batch is large.
 */
export async function readShard(
  deps: ReaderDeps,
  shard: number,
  handle: (batch: readonly UsageMessage[]) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const arrived = createBatchBuffer<Arrived>(({ payload }) => payload.length, { lingerMs: LINGER_MS });
  const receiving = receive(deps, shard, arrived, signal);
  let failures = 0;
  while (!signal.aborted) {
    const batch = await arrived.take(signal);
    if (signal.aborted) returnToStream(batch);
    else if (await handleBatch(deps, handle, batch, failures)) failures = 0;
    else await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
  }
  await receiving;
  while (arrived.size > 0) returnToStream(await arrived.take(signal));
}

async function handleBatch(
  { onError }: UsageStreamEvents,
  handle: (batch: readonly UsageMessage[]) => Promise<void>,
  batch: readonly Arrived[],
  failures: number,
): Promise<boolean> {
  try {
    await handle(batch);
    for (const { message } of batch) message.ack();
    return true;
  } catch (error) {
    for (const { message } of batch) message.nak(pauseAfter(failures + 1));
    onError(error, BATCH_FAILED);
    return false;
  }
}

async function receive(
  { client, consumer, ensure, readers, onError }: ReaderDeps,
  shard: number,
  arrived: BatchBuffer<Arrived>,
  signal: AbortSignal,
): Promise<void> {
  let known: ConsumerInfo | undefined = consumer;
  let largest = SMALL_FETCH_BYTES;
  let failures = 0;
  while (!signal.aborted) {
    try {
      known ??= await ensure(signal);
      await arrived.waitForSpace(signal);
      const size = fetchSize(largest, readers());
      largest = await fetch(client.consumers.getConsumerFromInfo(known), size, arrived, signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      known = undefined;
      onError(error, `failed to read shard ${shard} of the usage stream; retrying`);
      await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
    }
  }
}

/** How many messages to fetch, from the size of the largest message of the previous fetch. */
function fetchSize(largestBytes: number, readers: number): number {
  const count = Math.floor(SMALL_FETCH_BYTES / largestBytes);
  const least = Math.ceil(MIN_FETCH_MESSAGES / Math.max(1, readers / USAGE_SHARDS));
  return Math.min(Math.max(count, least), MAX_FETCH_MESSAGES);
}

/** Fetches `count` messages, or what arrives before the time-out. Resolves with the bytes of the largest. */
async function fetch(
  consumer: Consumer,
  count: number,
  arrived: BatchBuffer<Arrived>,
  signal: AbortSignal,
): Promise<number> {
  let largest = 1;
  if (signal.aborted) return largest;
  const messages = await consumer.fetch({ max_messages: count, expires: FETCH_TIMEOUT_MS });
  for await (const message of messages) {
    // Another reader can handle it at once.
    if (signal.aborted) message.nak();
    else {
      const payload = message.data;
      largest = Math.max(largest, payload.length);
      arrived.add({
        message,
        producerId: senderOf(message.subject),
        payload,
        traceparent: message.headers?.get(TRACEPARENT) || undefined,
      });
    }
  }
  return largest;
}

/** For immediate redelivery, instead of after the ack time-out. */
function returnToStream(batch: readonly Arrived[]): void {
  for (const { message } of batch) message.nak();
}
