import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ConsumerInfo,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StreamInfo,
} from '@nats-io/jetstream';
import { errors, headers, type NatsConnection } from '@nats-io/transport-node';
import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import { connectNats, followStatus, REFUSED } from '../nats/connectNats.ts';
import { describeMismatch, mismatchError } from '../nats/streamMismatch.ts';
import { readShard, TRACEPARENT } from './shardReader.ts';
import {
  acknowledgedUpTo,
  ensureConsumer,
  ensureConsumerOf010,
  ensureStream,
  findConsumer,
  hasStreamOf010,
  type StreamSize,
  streamMismatch,
  waitingShards,
} from './streamConfig.ts';
import { createStreamIdentity, type StreamIdentity } from './streamIdentity.ts';
import {
  ACK_REQUEST_GROUP,
  ACK_REQUESTS,
  ackSubjectOf,
  EVENTS,
  producerOf,
  REFUSAL_GROUP,
  refusalSubjectOf,
  subjectOf,
} from './subjects.ts';
import { createListeners, createSubscriptions } from './subscriptions.ts';
import {
  LISTENER_FAILED,
  type MessagePosition,
  MessageTooLargeError,
  type StreamPosition,
  type Subscription,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

const PUBLISH_TIMEOUT_MS = 5_000;
const STREAM_OF_0_1_0_POLL_MS = 5_000;
/** Each refusal is logged, here and by the server. */
const REFUSED_POLL_MS = 3_600_000;
/** JSStreamMessageExceedsMaximumErr. */
const MESSAGE_SIZE_EXCEEDS_MAXIMUM = 10_054;

export interface JetStreamOptions extends UsageStreamEvents, Partial<StreamSize> {
  /** One address or several with commas: `nats://host:4222`. */
  readonly url: string;
  /** The client's name in the server's list of connections. */
  readonly name: string;
}

/**
 * The usage stream of distributed mode. Creates the stream if it does not exist. Rejects if NATS is unreachable, or, with
 * how to fix it, if the existing stream has other settings.
 */
export async function openJetStreamUsageStream(options: JetStreamOptions): Promise<UsageStream> {
  const { replicas = 1, maxBytes = 1024 * 1024 * 1024 } = options;
  const size = { replicas, maxBytes };
  const connection = await connectNats(options.url, options.name);
  try {
    const manager = await jetstreamManager(connection);
    const mismatch = streamMismatch(await ensureStream(manager, size), size);
    if (mismatch) throw mismatchError(mismatch);
    return new JetStreamUsageStream(connection, manager, size, options.onError);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

class JetStreamUsageStream implements UsageStream {
  readonly #connection: NatsConnection;
  readonly #manager: JetStreamManager;
  readonly #client: JetStreamClient;
  readonly #size: StreamSize;
  readonly #onError: UsageStreamEvents['onError'];
  readonly #subscriptions = createSubscriptions();
  readonly #reconnectListeners = createListeners<[]>((error) =>
    this.#onError(error, 'failed to handle a reconnection'),
  );
  readonly #identity: StreamIdentity;
  /** Shards that had a consumer when this was first asked for. */
  #shardsRead: readonly number[] | undefined;
  #readers = 0;

  constructor(
    connection: NatsConnection,
    manager: JetStreamManager,
    size: StreamSize,
    onError: UsageStreamEvents['onError'],
  ) {
    this.#connection = connection;
    this.#manager = manager;
    this.#client = jetstream(connection);
    this.#size = size;
    this.#onError = onError;
    this.#identity = createStreamIdentity(() => this.#ensureStream());
    void followStatus(connection, {
      onDisconnect: () => onError(undefined, 'lost the connection to NATS; reconnecting'),
      onRefusal: (error) => onError(error, REFUSED),
      onReconnect: () => {
        this.#identity.forget();
        this.#reconnectListeners.notifyAll();
      },
    });
  }

  async publish(
    shard: number,
    producerId: string,
    messageId: string,
    payload: Uint8Array,
    traceparent?: string,
  ): Promise<MessagePosition> {
    // Looked up before sending: a stream that replaces this one meanwhile must not be taken for the one with the message.
    const stream = this.#identity.known ?? (await this.#identity.lookUp());
    try {
      const options = { msgID: messageId, timeout: PUBLISH_TIMEOUT_MS, ...headersOf(traceparent) };
      const { seq, duplicate } = await this.#client.publish(subjectOf(shard, producerId), payload, options);
      // The sequence did not grow: this is another stream, or an older state of the same one.
      if (!duplicate && seq <= stream.highestSequence) this.#identity.forget(stream);
      else stream.highestSequence = Math.max(stream.highestSequence, seq);
      return { streamId: stream.id, sequence: BigInt(seq) };
    } catch (error) {
      if (isTooLarge(error)) {
        throw new MessageTooLargeError(`a message of ${payload.length} bytes is larger than NATS accepts`, {
          cause: error,
        });
      }
      this.#identity.forget(stream);
      throw error;
    }
  }

  async consume(shard: number, handle: Parameters<UsageStream['consume']>[1]): Promise<Subscription> {
    const ensure = async () => {
      await this.#ensureStream();
      return ensureConsumer(this.#manager, shard);
    };
    const [client, onError] = [this.#client, this.#onError];
    const readers = () => this.#readers;
    const deps = { client, consumer: await ensure(), ensure, readers, onError };
    this.#readers++;
    const earlier = {
      client,
      consumer: undefined,
      ensure: (signal: AbortSignal) => waitForStreamOf010(this.#manager, shard, signal),
      readers,
      onError,
    };
    const hadEarlier = shard < USAGE_SHARDS;
    return this.#subscriptions.start(async (signal) => {
      await Promise.all([
        readShard(deps, shard, handle, signal),
        hadEarlier && readShard(earlier, shard, handle, signal),
      ]);
      this.#readers--;
    });
  }

  async position(shards = USAGE_SHARDS): Promise<StreamPosition> {
    const { created, state } = await this.#identity.refresh();
    const handledUpTo = await Promise.all(
      Array.from({ length: shards }, (_, shard) => acknowledgedUpTo(this.#manager, shard)),
    );
    return { streamId: created, lastSequence: BigInt(state.last_seq), handledUpTo };
  }

  async shardsInUse(): Promise<readonly number[]> {
    const shards = Array.from({ length: MAX_USAGE_SHARDS }, (_, shard) => shard);
    // Once: sixty requests, for shards that were idle when this process began.
    this.#shardsRead ??= (
      await Promise.all(
        shards.map(async (shard) => ((await findConsumer(this.#manager, shard)) ? [shard] : [])),
      )
    ).flat();
    return [...new Set([...this.#shardsRead, ...(await waitingShards(this.#manager))])];
  }

  announce(name: string, payload: Uint8Array): void {
    this.#send(`${EVENTS}.${name}`, payload);
  }

  sendAck(producerId: string, payload: Uint8Array): void {
    this.#send(ackSubjectOf(producerId), payload);
  }

  onAck(producerId: string, handle: (payload: Uint8Array) => void): Subscription {
    return this.#listen(ackSubjectOf(producerId), undefined, handle);
  }

  requestAck(payload: Uint8Array): void {
    this.#send(ACK_REQUESTS, payload);
  }

  onAckRequest(handle: (payload: Uint8Array) => void): Subscription {
    return this.#listen(ACK_REQUESTS, ACK_REQUEST_GROUP, handle);
  }

  sendRefusals(producerId: string, payload: Uint8Array): void {
    this.#send(refusalSubjectOf(producerId), payload);
  }

  onRefusals(handle: (payload: Uint8Array, producerId: string) => void): Subscription {
    return this.#listen(refusalSubjectOf('*'), REFUSAL_GROUP, (payload, subject) =>
      handle(payload, producerOf(subject)),
    );
  }

  onReconnect(handle: () => void): Subscription {
    return this.#reconnectListeners.add(handle);
  }

  async close(): Promise<void> {
    await this.#subscriptions.stopAll();
    // Flushes acknowledgements that are not sent yet.
    await this.#connection.drain();
  }

  #send(subject: string, payload: Uint8Array): void {
    if (this.#connection.isClosed() || this.#connection.isDraining()) return;
    this.#connection.publish(subject, payload);
  }

  #listen(
    subject: string,
    queue: string | undefined,
    handle: (payload: Uint8Array, subject: string) => void,
  ): Subscription {
    const listeners = createListeners<[Uint8Array, string]>((error) => this.#onError(error, LISTENER_FAILED));
    listeners.add(handle);
    const subscription = this.#connection.subscribe(subject, {
      ...(queue === undefined ? {} : { queue }),
      callback: (error, message) => {
        if (error) this.#onError(error, `the subscription of ${subject} failed`);
        else listeners.notifyAll(message.data, message.subject);
      },
    });
    return this.#subscriptions.start(
      (signal) =>
        new Promise((resolve) => {
          const unsubscribe = () => {
            if (!this.#connection.isClosed()) subscription.unsubscribe();
            resolve();
          };
          signal.addEventListener('abort', unsubscribe, { once: true });
        }),
    );
  }

  /** Creates the stream again if it was deleted. One with other settings is used, and reported. */
  async #ensureStream(): Promise<StreamInfo> {
    const info = await ensureStream(this.#manager, this.#size);
    const mismatch = streamMismatch(info, this.#size);
    if (mismatch) this.#onError(undefined, describeMismatch(mismatch));
    return info;
  }
}

/**
 * Waits until release 0.1.0 makes its stream, which it may at any time of an upgrade or a rollback. Rejects when the signal aborts.
 */
async function waitForStreamOf010(
  manager: JetStreamManager,
  shard: number,
  signal: AbortSignal,
): Promise<ConsumerInfo> {
  for (;;) {
    const found = await hasStreamOf010(manager).catch((error: Error) =>
      error.cause instanceof errors.PermissionViolationError ? 'refused' : false,
    );
    if (found === true) break;
    const pauseMs = found === 'refused' ? REFUSED_POLL_MS : STREAM_OF_0_1_0_POLL_MS;
    await sleep(pauseMs, undefined, { signal });
  }
  return await ensureConsumerOf010(manager, shard);
}

/** The client refuses what is above the server's limit, and the server what is above the stream's. */
function isTooLarge(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === MESSAGE_SIZE_EXCEEDS_MAXIMUM;
  if (error instanceof errors.InvalidArgumentError) return error.message.includes('max_payload');
  return error instanceof Error && error.cause !== undefined && isTooLarge(error.cause);
}

function headersOf(traceparent: string | undefined) {
  if (traceparent === undefined) return undefined;
  const traced = headers();
  traced.set(TRACEPARENT, traceparent);
  return { headers: traced };
}
