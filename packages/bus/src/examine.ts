import { AckPolicy, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect, type NatsConnection, nanos } from '@nats-io/transport-node';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { KeyValueSettings } from './keyValue.ts';
import { bucketMismatch, findBucket } from './keyValueConfig.ts';
import {
  consumerDifferences,
  findConsumer,
  findStream,
  type StreamSize,
  streamMismatch,
} from './streamConfig.ts';

const TIMEOUT_MS = 5_000;

/** A bucket as the apps would make it, and the settings that say so. */
export interface WantedBucket {
  readonly settings: KeyValueSettings;
  readonly setBy: string;
}

export interface BucketFacts {
  readonly name: string;
  readonly exists: boolean;
  /** In words, with how to mend it; undefined where it is as it should be. */
  readonly mismatch: string | undefined;
}

/** What there is to know of a NATS before the apps work on it. */
export interface NatsFacts {
  /** Such as `2.12.1`. */
  readonly version: string;
  /** Why JetStream can't be used; then nothing below was looked at. */
  readonly jetStreamFailure: string | undefined;
  readonly stream: {
    readonly exists: boolean;
    readonly mismatch: string | undefined;
    /** How much of it is full. */
    readonly usedRatio: number;
    /** Shards that nobody has ever read. */
    readonly unread: readonly number[];
    readonly consumerMismatches: readonly string[];
  };
  readonly buckets: readonly BucketFacts[];
  /** Of its clock; undefined where there is nothing yet that it could be asked by. */
  readonly now: Date | undefined;
}

export interface NatsExamination {
  /** One address or several with commas. */
  readonly url: string;
  readonly stream: StreamSize;
  readonly buckets: readonly WantedBucket[];
}

/** Looks at a NATS, and leaves nothing changed. Rejects where it can't be reached. */
export async function examineNats({ url, stream, buckets }: NatsExamination): Promise<NatsFacts> {
  const connection = await connect({
    servers: url.split(','),
    name: 'weighbridge-doctor',
    timeout: TIMEOUT_MS,
    reconnect: false,
  });
  try {
    const version = connection.info?.version ?? 'unknown';
    const manager = await managerOf(connection);
    if (manager instanceof Error) return { ...NOTHING, version, jetStreamFailure: manager.message };
    return {
      version,
      jetStreamFailure: undefined,
      stream: await streamFacts(manager, stream),
      buckets: await Promise.all(buckets.map((bucket) => bucketFacts(manager, bucket))),
      now: await clockOf(manager, buckets),
    };
  } finally {
    await connection.close();
  }
}

const NOTHING: Pick<NatsFacts, 'stream' | 'buckets' | 'now'> = {
  stream: { exists: false, mismatch: undefined, usedRatio: 0, unread: [], consumerMismatches: [] },
  buckets: [],
  now: undefined,
};

async function managerOf(connection: NatsConnection): Promise<JetStreamManager | Error> {
  try {
    const manager = await jetstreamManager(connection, { timeout: TIMEOUT_MS });
    await manager.getAccountInfo();
    return manager;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

async function streamFacts(manager: JetStreamManager, size: StreamSize): Promise<NatsFacts['stream']> {
  const info = await findStream(manager);
  if (!info) return NOTHING.stream;
  const shards = Array.from({ length: USAGE_SHARDS }, (_, shard) => shard);
  const consumers = await Promise.all(
    shards.map(async (shard) => ({ shard, found: await findConsumer(manager, shard) })),
  );
  const { max_bytes: maxBytes } = info.config;
  return {
    exists: true,
    mismatch: streamMismatch(info, size),
    usedRatio: maxBytes > 0 ? info.state.bytes / maxBytes : 0,
    unread: consumers.filter(({ found }) => !found).map(({ shard }) => shard),
    consumerMismatches: consumers.flatMap(
      ({ shard, found }) => (found && consumerDifferences(found, shard)) ?? [],
    ),
  };
}

async function bucketFacts(
  manager: JetStreamManager,
  { settings, setBy }: WantedBucket,
): Promise<BucketFacts> {
  const info = await findBucket(manager, settings);
  return {
    name: settings.name,
    exists: info !== undefined,
    mismatch: info && bucketMismatch(info, settings, setBy),
  };
}

/** A server tells its time by when it made something: a reader of a bucket, which goes at once. */
async function clockOf(
  manager: JetStreamManager,
  buckets: readonly WantedBucket[],
): Promise<Date | undefined> {
  for (const { settings } of buckets) {
    const info = await findBucket(manager, settings);
    if (!info) continue;
    const stream = info.config.name;
    const { name, created } = await manager.consumers.add(stream, {
      ack_policy: AckPolicy.None,
      inactive_threshold: nanos(TIMEOUT_MS),
    });
    await manager.consumers.delete(stream, name);
    return new Date(created);
  }
  return undefined;
}
