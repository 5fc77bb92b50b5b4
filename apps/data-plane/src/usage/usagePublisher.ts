import { setTimeout as sleep } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { MessageTooLargeError, type UsageStream } from '@weighbridge/bus';
import {
  USAGE_SHARDS,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
  usageShard,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';

export interface UsagePublisherDeps {
  readonly stream: UsageStream;
  readonly producerId: string;
  readonly newBatchId: () => string;
  readonly logger: Logger;
}

/** Hands usage to the stream in batches, again and again until the stream has it. */
export interface UsagePublisher {
  /** Whether what a request will leave behind still finds room: asked before anything is spent. */
  hasRoom(): boolean;
  /** What was not handed over yet. */
  readonly waitingBytes: number;
  publish(event: UsageEvent): void;
  /** Hands over what is left; rejects where that can't be done within `timeoutMs`, saying how much is lost. */
  close(timeoutMs: number): Promise<void>;
}

const MAX_BATCH_EVENTS = 256;
const MAX_BATCH_BYTES = 512 * 1024;
const MAX_BATCH_WAIT_MS = 20;
/** What may wait here while the stream is away. Past it, requests are refused before they cost anything. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 2_000;

interface Waiting {
  readonly event: UsageEvent;
  readonly bytes: number;
}

interface Shard {
  readonly number: number;
  waiting: Waiting[];
  waitingBytes: number;
  timer: NodeJS.Timeout | undefined;
  sending: Promise<void> | undefined;
}

export function createUsagePublisher({
  stream,
  producerId,
  newBatchId,
  logger,
}: UsagePublisherDeps): UsagePublisher {
  const shards: Shard[] = Array.from({ length: USAGE_SHARDS }, (_, number) => ({
    number,
    waiting: [],
    waitingBytes: 0,
    timer: undefined,
    sending: undefined,
  }));
  const giveUp = new AbortController();
  let heldBytes = 0;
  let heldEvents = 0;
  let droppedEvents = 0;

  function flush(shard: Shard): void {
    clearTimeout(shard.timer);
    shard.timer = undefined;
    shard.sending ??= sendAll(shard).finally(() => {
      shard.sending = undefined;
    });
  }

  /** One batch at a time, so that a shard's events arrive in order. */
  async function sendAll(shard: Shard): Promise<void> {
    while (shard.waiting.length > 0 && !giveUp.signal.aborted) {
      const taken = takeBatch(shard);
      if (!(await sendUntilTaken(shard.number, taken))) return;
    }
  }

  /** False where it was given up; true where the stream has it all, but for what is too large for any stream. */
  async function sendUntilTaken(shard: number, taken: readonly Waiting[]): Promise<boolean> {
    const events = taken.map(({ event }) => event);
    const payload = toBinary(UsageBatchSchema, create(UsageBatchSchema, { producerId, events }));
    // The same id on every try: a batch that was stored although its answer got lost is recognised.
    const id = newBatchId();
    for (let pause = RETRY_MIN_MS; !giveUp.signal.aborted; pause = Math.min(pause * 2, RETRY_MAX_MS)) {
      try {
        await stream.publish(shard, id, payload);
        letGo(taken);
        return true;
      } catch (error) {
        if (error instanceof MessageTooLargeError) return sendSingly(shard, taken, error);
        logger.warn({ err: error, heldEvents }, 'usage could not be handed over; trying again');
        await sleep(pause, undefined, { signal: giveUp.signal }).catch(() => {});
      }
    }
    return false;
  }

  async function sendSingly(shard: number, taken: readonly Waiting[], error: unknown): Promise<boolean> {
    const [first, ...others] = taken;
    if (first && others.length === 0) drop(first, error);
    else for (const one of taken) if (!(await sendUntilTaken(shard, [one]))) return false;
    return true;
  }

  /** Held any longer, it would hold up its shard for ever: the log is where it can be read up. */
  function drop(one: Waiting, error: unknown): void {
    const { eventId, requestId, keyId, costNanoUsd } = one.event;
    const lost = { eventId, requestId, keyId, costNanoUsd: String(costNanoUsd), bytes: one.bytes };
    logger.error({ err: error, ...lost }, 'a usage event is larger than the stream takes; it is lost');
    droppedEvents++;
    letGo([one]);
  }

  function letGo(taken: readonly Waiting[]): void {
    heldEvents -= taken.length;
    for (const { bytes } of taken) heldBytes -= bytes;
  }

  return {
    hasRoom: () => heldBytes < MAX_WAITING_BYTES,
    get waitingBytes() {
      return heldBytes;
    },

    publish(event) {
      const [bucket] = event.buckets;
      const shard = shards[bucket ? usageShard(bucket) : 0];
      if (!shard) throw new Error('every bucket has a shard');
      const bytes = toBinary(UsageEventSchema, event).length;
      shard.waiting.push({ event, bytes });
      shard.waitingBytes += bytes;
      heldBytes += bytes;
      heldEvents++;
      if (shard.waiting.length >= MAX_BATCH_EVENTS || shard.waitingBytes >= MAX_BATCH_BYTES) flush(shard);
      else shard.timer ??= setTimeout(() => flush(shard), MAX_BATCH_WAIT_MS);
    },

    async close(timeoutMs) {
      const deadline = setTimeout(() => giveUp.abort(), timeoutMs);
      for (const shard of shards) flush(shard);
      await Promise.all(shards.map((shard) => shard.sending));
      clearTimeout(deadline);
      const lost = heldEvents + droppedEvents;
      if (lost > 0) throw new Error(`${lost} usage events could not be handed over and are lost`);
    },
  };
}

function takeBatch(shard: Shard) {
  let bytes = 0;
  let count = 0;
  for (const waiting of shard.waiting) {
    if (count === MAX_BATCH_EVENTS || (count > 0 && bytes + waiting.bytes > MAX_BATCH_BYTES)) break;
    bytes += waiting.bytes;
    count++;
  }
  shard.waitingBytes -= bytes;
  return shard.waiting.splice(0, count);
}
