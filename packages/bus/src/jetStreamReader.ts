import { setTimeout as sleep } from 'node:timers/promises';
import type { Consumer, ConsumerInfo, JetStreamClient, JsMsg } from '@nats-io/jetstream';
import { createGathering, type Gathering } from './gathering.ts';
import { pauseAfter, type UsageMessage, type UsageStreamEvents } from './usageStream.ts';

/**
 * Asked for at once; the next are asked for when these are here and there is room. A multiple of the largest message bounds
 * the memory of a shard.
 */
const LEAST_FETCH_MESSAGES = 64;
/** To ask costs as much as some messages do, so that more are asked for while they are small. */
const MOST_FETCH_MESSAGES = 256;
const SMALL_FETCH_BYTES = 1024 * 1024;
/**
 * NATS sends a sign of life twice in this time; a fetch that was forgotten is noticed when they are missing. A reader that
 * stops waits for it to pass: what NATS sends on a fetch that its client gave up is lost until its time to be acknowledged is
 * over, a minute, in which the proxies' usage is not complete.
 */
const FETCH_TIMEOUT_MS = 1_000;

/** How long few messages wait for more: well below the second in which usage has to be visible. */
const LINGER_MS = 100;

/** The header of a message that says which trace it comes from. */
export const TRACEPARENT = 'traceparent';

/** A message, and its payload, of which the client makes a new view each time that it is asked. */
interface Arrived extends UsageMessage {
  readonly message: JsMsg;
}

export interface ReaderDeps extends UsageStreamEvents {
  readonly client: JetStreamClient;
  readonly consumer: ConsumerInfo;
  /** Brings back the stream and the shard's consumer where they are missing. */
  readonly ensure: () => Promise<ConsumerInfo>;
}

/**
 * Reads a shard until the signal aborts; resolves when the batch at hand is handled. Messages arrive while a batch is
 * handled, so that the next one is as large as may be.
 */
export async function readShard(
  deps: ReaderDeps,
  shard: number,
  handle: (batch: readonly UsageMessage[]) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const arrived = createGathering<Arrived>(({ payload }) => payload.length, { lingerMs: LINGER_MS });
  const receiving = receive(deps, shard, arrived, signal);
  let failures = 0;
  while (!signal.aborted) {
    const batch = await arrived.take(signal);
    if (signal.aborted) giveBack(batch);
    else if (await finish(deps, handle, batch, failures)) failures = 0;
    else await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
  }
  await receiving;
  while (arrived.size > 0) giveBack(await arrived.take(signal));
}

async function finish(
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
    onError(error, 'a batch of usage was not handled and will be tried again');
    return false;
  }
}

async function receive(
  { client, consumer, ensure, onError }: ReaderDeps,
  shard: number,
  arrived: Gathering<Arrived>,
  signal: AbortSignal,
): Promise<void> {
  let known: ConsumerInfo | undefined = consumer;
  let largest = SMALL_FETCH_BYTES;
  let failures = 0;
  while (!signal.aborted) {
    try {
      known ??= await ensure();
      await arrived.room(signal);
      largest = await fetch(client.consumers.getConsumerFromInfo(known), fetchSize(largest), arrived, signal);
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      known = undefined;
      onError(error, `shard ${shard} of the usage stream will be read again`);
      await sleep(pauseAfter(++failures), undefined, { signal }).catch(() => {});
    }
  }
}

/** How many messages are asked for where the largest of the latest was so large. */
function fetchSize(largestBytes: number): number {
  const small = Math.floor(SMALL_FETCH_BYTES / largestBytes);
  return Math.min(Math.max(small, LEAST_FETCH_MESSAGES), MOST_FETCH_MESSAGES);
}

/** Resolves when as many messages came as were asked for, or when the time is over, with the bytes of the largest. */
async function fetch(
  consumer: Consumer,
  count: number,
  arrived: Gathering<Arrived>,
  signal: AbortSignal,
): Promise<number> {
  let largest = 1;
  if (signal.aborted) return largest;
  const messages = await consumer.fetch({ max_messages: count, expires: FETCH_TIMEOUT_MS });
  for await (const message of messages) {
    // At once: somebody else may handle it.
    if (signal.aborted) message.nak();
    else {
      const payload = message.data;
      largest = Math.max(largest, payload.length);
      arrived.add({ message, payload, traceparent: message.headers?.get(TRACEPARENT) || undefined });
    }
  }
  return largest;
}

/** At once, rather than when their time to be acknowledged is over. */
function giveBack(batch: readonly Arrived[]): void {
  for (const { message } of batch) message.nak();
}
