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
  type StreamInfo,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { configDifferences, type Mismatch, STREAM_NAME_IN_USE } from '../nats/streamMismatch.ts';
import {
  STREAM,
  STREAM_OF_0_1_0,
  SUBJECTS,
  SUBJECTS_OF_0_1_0,
  shardOf,
  subjectOf,
  subjectOf010,
} from './subjects.ts';

const durableOf = (shard: number): string => `metering-s${shard}`;

const ACK_WAIT_MS = 60_000;
const DUPLICATE_WINDOW_MS = 120_000;
/** Over all readers of a shard. Each reader bounds its own buffer, so this is only a safety limit. */
const MAX_UNACKNOWLEDGED = 16_384;
/** JSStreamSubjectOverlapErr. */
const SUBJECTS_OVERLAP = 10_065;

export interface StreamSize {
  /** How many servers of a cluster store the stream: an odd number; 1 without a cluster. */
  readonly replicas: number;
  /** The stream refuses messages beyond this. */
  readonly maxBytes: number;
}

/** Finds the stream, or creates it. Rejects with a time-out, or, if NATS refuses to create it, with how to fix that. */
export async function ensureStream(manager: JetStreamManager, size: StreamSize): Promise<StreamInfo> {
  const found = await findStream(manager);
  if (found) return found;
  try {
    return await manager.streams.add({ name: STREAM, ...wantedStream(size) });
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error;
    if (error.code === STREAM_NAME_IN_USE) return manager.streams.info(STREAM);
    throw new Error(
      `NATS refused to create the stream ${STREAM}: ${error.message}. ${adviceFor(error, size)}`,
      {
        cause: error,
      },
    );
  }
}

function adviceFor({ code }: JetStreamApiError, { replicas, maxBytes }: StreamSize): string {
  return code === SUBJECTS_OVERLAP
    ? `Another stream has the subjects ${SUBJECTS}: find it (nats stream ls --subjects), and remove them from it`
    : `Check NATS_STREAM_REPLICAS (${replicas}) and NATS_STREAM_MAX_BYTES (${maxBytes})`;
}

/** How the stream differs from the settings; undefined if it does not. Fields unknown to the server are skipped. */
export function streamMismatch(
  { config }: Pick<StreamInfo, 'config'>,
  size: StreamSize,
): Mismatch | undefined {
  const differences = configDifferences(config, { ...wantedStream(size), ...UNLIMITED });
  if (differences === undefined) return undefined;
  return {
    problem: `The stream ${STREAM} in NATS has other settings: ${differences}.`,
    fix: [
      'To fix it, set NATS_STREAM_REPLICAS and NATS_STREAM_MAX_BYTES to its values, the same for every process;',
      `or edit it (nats stream edit ${STREAM});`,
      `or delete it (nats stream rm ${STREAM}): it is created again, and the proxies send again what the ledger lacks.`,
    ].join(' '),
  };
}

/** Creates a shard's durable consumer, or updates it if its settings differ. */
export async function ensureConsumer(manager: JetStreamManager, shard: number): Promise<ConsumerInfo> {
  return await ensureConsumerOf(manager, STREAM, durableOf(shard), wantedConsumer(shard));
}

/** Whether release 0.1.0 has left its stream here. */
export async function hasStreamOf010(manager: JetStreamManager): Promise<boolean> {
  const info = await orUndefined(manager.streams.info(STREAM_OF_0_1_0), JetStreamApiCodes.StreamNotFound);
  return String(info?.config.subjects) === SUBJECTS_OF_0_1_0;
}

/** A shard's consumer in the stream of release 0.1.0, shared with workers of that release. */
export async function ensureConsumerOf010(manager: JetStreamManager, shard: number): Promise<ConsumerInfo> {
  const wanted = { ...wantedConsumer(shard), filter_subject: subjectOf010(shard) };
  return await ensureConsumerOf(manager, STREAM_OF_0_1_0, durableOf(shard), wanted);
}

async function ensureConsumerOf(
  manager: JetStreamManager,
  stream: string,
  durable: string,
  wanted: ReturnType<typeof wantedConsumer>,
): Promise<ConsumerInfo> {
  const found = await orUndefined(
    manager.consumers.info(stream, durable),
    JetStreamApiCodes.ConsumerNotFound,
  );
  if (!found) return manager.consumers.add(stream, { durable_name: durable, ...wanted });
  const actual: Readonly<Record<string, unknown>> = { ...found.config };
  const differs = Object.entries(wanted).some(([field, value]) => actual[field] !== value);
  // NATS rejects a change of the filter or the ack policy.
  return differs ? manager.consumers.update(stream, durable, wanted) : found;
}

/** A shard's messages are acknowledged up to this sequence; 0 before its first reader. */
export async function acknowledgedUpTo(
  manager: Pick<JetStreamManager, 'consumers' | 'streams'>,
  shard: number,
): Promise<bigint> {
  const found = await findConsumer(manager, shard);
  if (!found) return 0n;
  const { ack_floor, delivered, num_ack_pending } = found;
  // After a crash, NATS may await the ack of a message for ever that it has lost: the floor stays there, whatever is acknowledged later.
  const awaitsNothing = num_ack_pending > 0 && !(await holdsMessages(manager, shard));
  return BigInt(awaitsNothing ? delivered.stream_seq : ack_floor.stream_seq);
}

/** Acknowledged messages are removed from the stream. */
async function holdsMessages(manager: Pick<JetStreamManager, 'streams'>, shard: number): Promise<boolean> {
  const { state } = await manager.streams.info(STREAM, { subjects_filter: subjectOf(shard, '*') });
  return Object.keys(state.subjects ?? {}).length > 0;
}

/** The shards that have messages in the stream: one request, however many shards and producers there are. */
export async function waitingShards(manager: Pick<JetStreamManager, 'streams'>): Promise<readonly number[]> {
  const { state } = await manager.streams.info(STREAM, { subjects_filter: SUBJECTS });
  const shards = new Set(Object.keys(state.subjects ?? {}).map(shardOf));
  return [...shards].filter((shard) => shard !== undefined);
}

export function findStream(manager: JetStreamManager): Promise<StreamInfo | undefined> {
  return orUndefined(manager.streams.info(STREAM), JetStreamApiCodes.StreamNotFound);
}

export function findConsumer(
  manager: Pick<JetStreamManager, 'consumers'>,
  shard: number,
): Promise<ConsumerInfo | undefined> {
  return orUndefined(manager.consumers.info(STREAM, durableOf(shard)), JetStreamApiCodes.ConsumerNotFound);
}

/** How a shard's consumer differs from its settings; undefined if it does not. */
export function consumerDifferences({ config }: ConsumerInfo, shard: number): string | undefined {
  const differences = configDifferences(config, wantedConsumer(shard));
  return differences && `the consumer ${durableOf(shard)}: ${differences}`;
}

function wantedConsumer(shard: number) {
  return {
    filter_subject: subjectOf(shard, '*'),
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
    // A full stream refuses new messages: the publisher still has them, and retries.
    discard: DiscardPolicy.New,
    max_bytes: size.maxBytes,
    num_replicas: size.replicas,
    duplicate_window: nanos(DUPLICATE_WINDOW_MS),
  };
}

/** The defaults of a new stream. Any other value drops messages, refuses them, or sends publishers no response. */
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
