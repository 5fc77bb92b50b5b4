import {
  AckPolicy,
  type ConsumerConfig,
  type ConsumerInfo,
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';

const STREAM = 'USAGE';
const SUBJECTS = 'usage.v1.*';
export const subjectOf = (shard: number): string => `usage.v1.s${shard}`;
const durableOf = (shard: number): string => `metering-s${shard}`;

const ACK_WAIT_MS = 60_000;
const DUPLICATE_WINDOW_MS = 120_000;
/** Over all workers of a shard. Each bounds by itself what it holds, so this is only a limit against madness. */
const MAX_UNACKNOWLEDGED = 16_384;
/** JSStreamNameExistErr: another process created it between our look and our attempt. */
export const STREAM_NAME_IN_USE = 10_058;
/** JSStreamSubjectOverlapErr. */
const SUBJECTS_OVERLAP = 10_065;

/** What differs between installations. */
export interface StreamSize {
  /** Copies of the stream, of an odd number of servers in a cluster; 1 without one. */
  readonly replicas: number;
  /** What the stream may hold before it refuses more. */
  readonly maxBytes: number;
}

/**
 * The stream as it is, created where it is missing. Rejects with a time-out, or with what to mend where NATS does not
 * create it.
 */
export async function ensureStream(manager: JetStreamManager, size: StreamSize): Promise<StreamInfo> {
  const found = await findStream(manager);
  if (found) return found;
  try {
    return await manager.streams.add({ name: STREAM, ...wantedStream(size) });
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error;
    if (error.code === STREAM_NAME_IN_USE) return manager.streams.info(STREAM);
    throw new Error(
      `NATS does not create the stream ${STREAM}: ${error.message}. ${howToMend(error, size)}`,
      {
        cause: error,
      },
    );
  }
}

function howToMend({ code }: JetStreamApiError, { replicas, maxBytes }: StreamSize): string {
  return code === SUBJECTS_OVERLAP
    ? `Another stream takes the subjects ${SUBJECTS}: find it (nats stream ls --subjects), and take them from it`
    : `Check NATS_STREAM_REPLICAS (${replicas}) and NATS_STREAM_MAX_BYTES (${maxBytes})`;
}

/**
 * What is wrong with the stream, and how to mend it; undefined where nothing is. A field that a server of another version
 * does not know counts as being as it should.
 */
export function streamMismatch({ config }: Pick<StreamInfo, 'config'>, size: StreamSize): string | undefined {
  const differences = configDifferences(config, { ...wantedStream(size), ...UNLIMITED });
  if (differences === undefined) return undefined;
  return [
    `The stream ${STREAM} in NATS is not as it should be: ${differences}.`,
    'To mend it, set NATS_STREAM_REPLICAS and NATS_STREAM_MAX_BYTES to what it has, the same for every process;',
    `or edit it (nats stream edit ${STREAM});`,
    `or delete it (nats stream rm ${STREAM}): it is created anew, and the proxies send again what is not yet in the ledger.`,
  ].join(' ');
}

/** In which fields a stream is not as it should be, in words; one that its server does not know counts as right. */
export function configDifferences(
  config: StreamConfig | ConsumerConfig,
  wanted: Readonly<Record<string, unknown>>,
): string | undefined {
  const actual: Readonly<Record<string, unknown>> = { ...config };
  const differing = Object.entries(wanted).filter(
    ([field, value]) => actual[field] !== undefined && String(actual[field]) !== String(value),
  );
  const fields = differing.map(([field, value]) => `${field} is ${actual[field]} and should be ${value}`);
  return fields.length > 0 ? fields.join('; ') : undefined;
}

/** Makes a shard's durable consumer what it should be, creating it where it is missing. */
export async function ensureConsumer(manager: JetStreamManager, shard: number): Promise<ConsumerInfo> {
  const durable = durableOf(shard);
  const wanted = wantedConsumer(shard);
  const found = await findConsumer(manager, shard);
  if (!found) return manager.consumers.add(STREAM, { durable_name: durable, ...wanted });
  const actual: Readonly<Record<string, unknown>> = { ...found.config };
  const differs = Object.entries(wanted).some(([field, value]) => actual[field] !== value);
  // NATS refuses to change what can't be: the filter, and how is acknowledged.
  return differs ? manager.consumers.update(STREAM, durable, wanted) : found;
}

/** Up to where a shard's messages are acknowledged; 0 while nobody has ever read it. */
export async function acknowledgedUpTo(manager: JetStreamManager, shard: number): Promise<bigint> {
  const found = await findConsumer(manager, shard);
  return BigInt(found?.ack_floor.stream_seq ?? 0);
}

/** The stream as it is; undefined where there is none. */
export function findStream(manager: JetStreamManager): Promise<StreamInfo | undefined> {
  return orUndefined(manager.streams.info(STREAM), JetStreamApiCodes.StreamNotFound);
}

export function findConsumer(manager: JetStreamManager, shard: number): Promise<ConsumerInfo | undefined> {
  return orUndefined(manager.consumers.info(STREAM, durableOf(shard)), JetStreamApiCodes.ConsumerNotFound);
}

/** In which fields a shard's consumer is not as it should be, in words; undefined where it is. */
export function consumerDifferences({ config }: ConsumerInfo, shard: number): string | undefined {
  const differences = configDifferences(config, wantedConsumer(shard));
  return differences && `the consumer ${durableOf(shard)}: ${differences}`;
}

function wantedConsumer(shard: number) {
  return {
    filter_subject: subjectOf(shard),
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_deliver: -1,
    max_ack_pending: MAX_UNACKNOWLEDGED,
  } satisfies Partial<ConsumerConfig>;
}

function wantedStream(size: StreamSize) {
  return {
    subjects: [SUBJECTS],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    // A full stream refuses: the publisher keeps what it could not hand over.
    discard: DiscardPolicy.New,
    max_bytes: size.maxBytes,
    num_replicas: size.replicas,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  };
}

/** What a new stream has by default. Any other value drops messages, refuses them or leaves publishers unanswered. */
const UNLIMITED = {
  max_age: 0,
  max_msgs: -1,
  max_msgs_per_subject: -1,
  max_msg_size: -1,
  max_consumers: -1,
  sealed: false,
  no_ack: false,
};

async function orUndefined<T>(found: Promise<T>, notFound: JetStreamApiCodes): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === notFound) return undefined;
    throw error;
  }
}
