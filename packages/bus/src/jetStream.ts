import {
  JetStreamApiError,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type StreamInfo,
} from '@nats-io/jetstream';
import { connect, errors, headers, type NatsConnection } from '@nats-io/transport-node';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { createConsumptions, createListeners } from './consumptions.ts';
import { readShard, TRACEPARENT } from './jetStreamReader.ts';
import {
  acknowledgedUpTo,
  ensureConsumer,
  ensureStream,
  type StreamSize,
  streamMismatch,
  subjectOf,
} from './streamConfig.ts';
import {
  type Consumption,
  MessageTooLargeError,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

const confirmSubjectOf = (producerId: string): string => `usage.confirms.${producerId}`;
const CONFIRM_QUERIES = 'usage.confirm-queries';
const CONFIRM_QUERY_GROUP = 'metering';
const CONNECT_TIMEOUT_MS = 5_000;
const PUBLISH_TIMEOUT_MS = 5_000;
/** JetStream's code for it: JSStreamMessageExceedsMaximumErr. */
const MESSAGE_SIZE_EXCEEDS_MAXIMUM = 10_054;

export interface JetStreamOptions extends UsageStreamEvents, Partial<StreamSize> {
  /** One address or several with commas: `nats://host:4222`. */
  readonly url: string;
  /** Shown by the server in its list of connections. */
  readonly name: string;
}

/**
 * The usage stream of distributed mode. Creates the stream where it is missing. Rejects when NATS can't be reached, and,
 * saying what to mend, where the stream is there but is not as it should be.
 */
export async function openJetStreamUsageStream(options: JetStreamOptions): Promise<UsageStream> {
  const { replicas = 1, maxBytes = 1024 * 1024 * 1024 } = options;
  const size = { replicas, maxBytes };
  const connection = await connect({
    servers: options.url.split(','),
    name: options.name,
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
  }).catch((error) => {
    throw new Error('NATS does not answer. Check NATS_URL', { cause: error });
  });
  try {
    const manager = await jetstreamManager(connection);
    const mismatch = streamMismatch(await ensureStream(manager, size), size);
    if (mismatch) throw new Error(mismatch);
    return usageStream(connection, manager, size, options.onError);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function usageStream(
  connection: NatsConnection,
  manager: JetStreamManager,
  size: StreamSize,
  onError: UsageStreamEvents['onError'],
): UsageStream {
  const client = jetstream(connection);
  const consumptions = createConsumptions();
  const reconnects = createListeners<[]>((error) => onError(error, 'a reconnection was not handled'));
  const identity = createIdentity(() => bringBack(manager, size, onError));

  const listen = (
    subject: string,
    queue: string | undefined,
    handle: (payload: Uint8Array) => void,
  ): Consumption => {
    const listeners = createListeners<[Uint8Array]>((error) =>
      onError(error, 'a confirm of usage was not handled'),
    );
    listeners.add(handle);
    const subscription = connection.subscribe(subject, {
      ...(queue === undefined ? {} : { queue }),
      callback: (error, message) => {
        if (error) onError(error, `${subject} is not listened to`);
        else listeners.tell(message.data);
      },
    });
    return consumptions.start(
      (signal) =>
        new Promise((resolve) => {
          const unsubscribe = () => {
            if (!connection.isClosed()) subscription.unsubscribe();
            resolve();
          };
          signal.addEventListener('abort', unsubscribe, { once: true });
        }),
    );
  };
  const tell = (subject: string, payload: Uint8Array): void => {
    if (connection.isClosed() || connection.isDraining()) return;
    connection.publish(subject, payload);
  };

  void followStatus(connection, {
    lost() {
      onError(undefined, 'the connection to NATS was lost; reconnecting');
    },
    cameBack() {
      identity.forget();
      reconnects.tell();
    },
  });

  return {
    async publish(shard, messageId, payload, traceparent) {
      // As it was before sending: a stream that replaces this one meanwhile must not pass for the one that has the message.
      const stream = identity.known ?? (await identity.learn());
      try {
        const options = { msgID: messageId, timeout: PUBLISH_TIMEOUT_MS, ...headersOf(traceparent) };
        const { seq, duplicate } = await client.publish(subjectOf(shard), payload, options);
        // It did not go on: another stream answers by now, or an older state of this one.
        if (!duplicate && seq <= stream.highestSequence) identity.forget(stream);
        else stream.highestSequence = Math.max(stream.highestSequence, seq);
        return { streamId: stream.id, sequence: BigInt(seq) };
      } catch (error) {
        if (isTooLarge(error)) {
          throw new MessageTooLargeError(`NATS takes no message of ${payload.length} bytes`, {
            cause: error,
          });
        }
        identity.forget(stream);
        throw error;
      }
    },

    async consume(shard, handle) {
      const ensure = async () => {
        await bringBack(manager, size, onError);
        return ensureConsumer(manager, shard);
      };
      const deps = { client, consumer: await ensure(), ensure, onError };
      return consumptions.start((signal) => readShard(deps, shard, handle, signal));
    },

    async position() {
      const { created, state } = await identity.refresh();
      const handledUpTo = await Promise.all(
        Array.from({ length: USAGE_SHARDS }, (_, shard) => acknowledgedUpTo(manager, shard)),
      );
      return { streamId: created, lastSequence: BigInt(state.last_seq), handledUpTo };
    },

    announce: (name, payload) => tell(`events.v1.${name}`, payload),
    confirm: (producerId, payload) => tell(confirmSubjectOf(producerId), payload),
    onConfirm: (producerId, handle) => listen(confirmSubjectOf(producerId), undefined, handle),
    askConfirm: (payload) => tell(CONFIRM_QUERIES, payload),
    onConfirmQuery: (handle) => listen(CONFIRM_QUERIES, CONFIRM_QUERY_GROUP, handle),
    onReconnect: (handle) => reconnects.add(handle),

    async close() {
      await consumptions.stopAll();
      // Flushes acknowledgements that are still on their way out.
      await connection.drain();
    },
  };
}

/** The stream, made again where somebody deleted it. It is used also where it is not as it should be, but not silently. */
async function bringBack(
  manager: JetStreamManager,
  size: StreamSize,
  onError: UsageStreamEvents['onError'],
): Promise<StreamInfo> {
  const info = await ensureStream(manager, size);
  const mismatch = streamMismatch(info, size);
  if (mismatch) onError(undefined, mismatch);
  return info;
}

interface KnownStream {
  readonly id: string;
  /** Of the messages that were published to it from here. */
  highestSequence: number;
}

/** Which stream publishing goes to, learnt once and again after anything that may have changed it. */
interface Identity {
  readonly known: KnownStream | undefined;
  learn(): Promise<KnownStream>;
  /** Asks anew, always. */
  refresh(): Promise<StreamInfo>;
  /** What is known is in doubt; with an argument, only if it is still that. */
  forget(stream?: KnownStream): void;
}

function createIdentity(look: () => Promise<StreamInfo>): Identity {
  let known: KnownStream | undefined;
  let learning: Promise<KnownStream> | undefined;

  const refresh = async (): Promise<StreamInfo> => {
    const info = await look();
    if (known?.id !== info.created) known = { id: info.created, highestSequence: 0 };
    return info;
  };
  const learn = async (): Promise<KnownStream> => {
    const { created } = await refresh();
    return known ?? { id: created, highestSequence: 0 };
  };
  return {
    get known() {
      return known;
    },
    learn() {
      learning ??= learn().finally(() => {
        learning = undefined;
      });
      return learning;
    },
    refresh,
    forget(stream) {
      if (stream === undefined || stream === known) known = undefined;
    },
  };
}

/** Beyond what the server takes, the client refuses; beyond what the stream takes, the server does. */
function isTooLarge(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === MESSAGE_SIZE_EXCEEDS_MAXIMUM;
  if (error instanceof errors.InvalidArgumentError) return error.message.includes('max_payload');
  return error instanceof Error && error.cause !== undefined && isTooLarge(error.cause);
}

async function followStatus(
  connection: NatsConnection,
  events: { readonly lost: () => void; readonly cameBack: () => void },
): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect') events.lost();
    if (status.type === 'reconnect') events.cameBack();
  }
}

function headersOf(traceparent: string | undefined) {
  if (traceparent === undefined) return undefined;
  const traced = headers();
  traced.set(TRACEPARENT, traceparent);
  return { headers: traced };
}
