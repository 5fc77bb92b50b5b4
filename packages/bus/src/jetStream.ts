import { setTimeout as sleep } from 'node:timers/promises';
import {
  AckPolicy,
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from '@nats-io/jetstream';
import { connect, errors, type NatsConnection, nanos } from '@nats-io/transport-node';
import { createConsumptions } from './consumptions.ts';
import { createGathering } from './gathering.ts';
import {
  MAX_BATCH_MESSAGES,
  MessageTooLargeError,
  REDELIVERY_PAUSE_MS,
  type UsageStream,
  type UsageStreamEvents,
} from './usageStream.ts';

const STREAM = 'USAGE';
const SUBJECTS = 'usage.v1.*';
const subjectOf = (shard: number): string => `usage.v1.s${shard}`;
const CONNECT_TIMEOUT_MS = 5_000;
const PUBLISH_TIMEOUT_MS = 5_000;
const ACK_WAIT_MS = 60_000;
const MAX_UNACKNOWLEDGED = 256;
/** JetStream's code for it: JSStreamMessageExceedsMaximumErr. */
const MESSAGE_SIZE_EXCEEDS_MAXIMUM = 10_054;
const DUPLICATE_WINDOW_MS = 120_000;

export interface JetStreamOptions extends UsageStreamEvents {
  /** One address or several with commas: `nats://host:4222`. */
  readonly url: string;
  /** Shown by the server in its list of connections. */
  readonly name: string;
  readonly replicas?: number;
  readonly maxBytes?: number;
}

/** The usage stream of distributed mode. Creates the stream where it is missing. Rejects when NATS can't be reached. */
export async function openJetStreamUsageStream(options: JetStreamOptions): Promise<UsageStream> {
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
    await manager.streams.add(streamConfig(options));
    return usageStream(connection, manager, options);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function usageStream(
  connection: NatsConnection,
  manager: JetStreamManager,
  options: JetStreamOptions,
): UsageStream {
  const stream = jetstream(connection);
  const consumptions = createConsumptions();
  void reportStatus(connection, options);

  return {
    async publish(shard, messageId, payload) {
      try {
        await stream.publish(subjectOf(shard), payload, { msgID: messageId, timeout: PUBLISH_TIMEOUT_MS });
      } catch (error) {
        if (!isTooLarge(error)) throw error;
        throw new MessageTooLargeError(`NATS takes no message of ${payload.length} bytes`, { cause: error });
      }
    },

    async consume(shard, handle) {
      const durable = `metering-s${shard}`;
      await manager.consumers.add(STREAM, {
        durable_name: durable,
        filter_subject: subjectOf(shard),
        ack_policy: AckPolicy.Explicit,
        ack_wait: nanos(ACK_WAIT_MS),
        max_deliver: -1,
        // Bounds what is held here while the database is away.
        max_ack_pending: MAX_UNACKNOWLEDGED,
      });
      const consumer = await stream.consumers.get(STREAM, durable);
      const finish = async (batch: readonly JsMsg[]): Promise<void> => {
        try {
          await handle(batch.map((message) => ({ payload: message.data })));
          for (const message of batch) message.ack();
        } catch (error) {
          for (const message of batch) message.nak(REDELIVERY_PAUSE_MS);
          options.onError(error, 'a batch of usage was not handled and will be tried again');
        }
      };

      const arrived = createGathering<JsMsg>();
      const receive = async (signal: AbortSignal): Promise<void> => {
        while (!signal.aborted) {
          try {
            const messages = await consumer.consume({
              max_messages: MAX_BATCH_MESSAGES,
              callback: (message) => arrived.add(message),
            });
            const stopReceiving = () => void messages.close();
            signal.addEventListener('abort', stopReceiving, { once: true });
            if (signal.aborted) stopReceiving();
            await messages.closed();
            signal.removeEventListener('abort', stopReceiving);
          } catch (error) {
            options.onError(error, `shard ${shard} of the usage stream will be read again`);
          }
          await sleep(REDELIVERY_PAUSE_MS, undefined, { signal }).catch(() => {});
        }
      };

      return consumptions.start(async (signal) => {
        const receiving = receive(signal);
        while (!signal.aborted) {
          const batch = await arrived.take(MAX_BATCH_MESSAGES, signal);
          if (batch.length > 0) await finish(batch);
        }
        await receiving;
        // Given back at once, rather than when their time to be acknowledged is over.
        for (const message of await arrived.take(MAX_UNACKNOWLEDGED, signal)) message.nak();
      });
    },

    async close() {
      await consumptions.stopAll();
      // Flushes acknowledgements that are still on their way out.
      await connection.drain();
    },
  };
}

function streamConfig(options: JetStreamOptions): Partial<StreamConfig> & { name: string } {
  return {
    name: STREAM,
    subjects: [SUBJECTS],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    // A full stream refuses: the publisher keeps what it could not hand over.
    discard: DiscardPolicy.New,
    max_bytes: options.maxBytes ?? 1024 * 1024 * 1024,
    num_replicas: options.replicas ?? 1,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  };
}

/** Beyond what the server takes, the client refuses; beyond what the stream takes, the server does. */
function isTooLarge(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === MESSAGE_SIZE_EXCEEDS_MAXIMUM;
  if (error instanceof errors.InvalidArgumentError) return error.message.includes('max_payload');
  return error instanceof Error && error.cause !== undefined && isTooLarge(error.cause);
}

async function reportStatus(connection: NatsConnection, options: JetStreamOptions): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect')
      options.onError(undefined, 'the connection to NATS was lost; reconnecting');
  }
}
