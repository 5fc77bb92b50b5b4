import { AckPolicy, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { connect, errors, type NatsConnection, nanos } from '@nats-io/transport-node';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import { bucketMismatch, findBucket } from './keyValue/bucketConfig.ts';
import { CACHE_BUCKET, type KeyValueSettings } from './keyValue/keyValue.ts';
import { natsAddress } from './nats/natsAddress.ts';
import type { Mismatch } from './nats/streamMismatch.ts';
import { type MissingPermissions, missingPermissions } from './permissions/checkPermissions.ts';
import {
  consumerDifferences,
  findConsumer,
  findStream,
  type StreamSize,
  streamMismatch,
  waitingShards,
} from './usageStream/streamConfig.ts';

const TIMEOUT_MS = 5_000;

/** A bucket with the settings that the apps would create it with. `setBy` names those settings, for the fix. */
export interface WantedBucket {
  readonly settings: KeyValueSettings;
  readonly setBy: string;
}

export interface BucketStatus {
  readonly name: string;
  readonly exists: boolean;
  readonly mismatch: Mismatch | undefined;
}

export interface NatsStatus {
  /** Such as `2.12.1`. */
  readonly version: string;
  /** Of the user, undefined if NATS knows no users. */
  readonly user: string | undefined;
  /** What an app with this user could not do. */
  readonly missing: MissingPermissions;
  /** Why JetStream can't be used; if it is set, nothing below was checked. */
  readonly jetStreamFailure: string | undefined;
  readonly stream: {
    readonly exists: boolean;
    readonly mismatch: Mismatch | undefined;
    /** From 0 to 1. */
    readonly usedRatio: number;
    /** Shards without a consumer, of the first and of those that hold messages: no one has ever read them. */
    readonly unread: readonly number[];
    readonly consumerMismatches: readonly string[];
  };
  readonly buckets: readonly BucketStatus[];
  /** The server's clock; undefined while there is no bucket to read it from. */
  readonly now: Date | undefined;
}

export interface NatsCheck {
  /** One address or several with commas. */
  readonly url: string;
  readonly stream: StreamSize;
  readonly buckets: readonly WantedBucket[];
}

/** Reads the state of NATS, and changes nothing. Rejects if it is unreachable. */
export async function checkNats({ url, stream, buckets }: NatsCheck): Promise<NatsStatus> {
  const address = natsAddress(url);
  const connection = await connect({
    ...address,
    name: 'weighbridge-doctor',
    timeout: TIMEOUT_MS,
    reconnect: false,
  }).catch((error) => {
    if (!(error instanceof errors.TimeoutError)) throw error;
    throw new Error(`no answer within ${TIMEOUT_MS / 1_000} s`, { cause: error });
  });
  try {
    const version = connection.info?.version ?? 'unknown';
    const sharesCache = buckets.some(({ settings }) => settings.name === CACHE_BUCKET);
    const { user } = address;
    const missing = await missingPermissions(connection, {
      ...(user !== undefined && { user }),
      sharesCache,
    });
    const known = { version, user, missing };
    const manager = await openManager(connection);
    if (manager instanceof Error) return { ...NOTHING, ...known, jetStreamFailure: manager.message };
    return {
      ...known,
      jetStreamFailure: undefined,
      stream: (await unlessRefused(streamStatus(manager, stream))) ?? NOTHING.stream,
      buckets: (
        await Promise.all(buckets.map((bucket) => unlessRefused(bucketStatus(manager, bucket))))
      ).filter((status) => status !== undefined),
      now: await unlessRefused(readClock(manager, buckets)),
    };
  } finally {
    await connection.close();
  }
}

const NOTHING: Pick<NatsStatus, 'stream' | 'buckets' | 'now'> = {
  stream: { exists: false, mismatch: undefined, usedRatio: 0, unread: [], consumerMismatches: [] },
  buckets: [],
  now: undefined,
};

/** Undefined if the user may not read it: the missing permission is reported by itself, if any app needs it. */
async function unlessRefused<T>(reading: Promise<T>): Promise<T | undefined> {
  return await reading.catch((error: Error) => {
    if (isRefusal(error)) return undefined;
    throw error;
  });
}

function isRefusal(error: Error): boolean {
  return (
    error instanceof errors.PermissionViolationError || error.cause instanceof errors.PermissionViolationError
  );
}

async function openManager(connection: NatsConnection): Promise<JetStreamManager | Error> {
  try {
    const manager = await jetstreamManager(connection, { timeout: TIMEOUT_MS, checkAPI: false });
    await unlessRefused(manager.getAccountInfo());
    return manager;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

async function streamStatus(manager: JetStreamManager, size: StreamSize): Promise<NatsStatus['stream']> {
  const info = await findStream(manager);
  if (!info) return NOTHING.stream;
  const shards = new Set(Array.from({ length: USAGE_SHARDS }, (_, shard) => shard));
  // Proxies may use more, and an earlier release of metering reads none of them.
  for (const shard of await waitingShards(manager)) shards.add(shard);
  const consumers = await Promise.all(
    [...shards].map(async (shard) => ({ shard, found: await findConsumer(manager, shard) })),
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

async function bucketStatus(
  manager: JetStreamManager,
  { settings, setBy }: WantedBucket,
): Promise<BucketStatus> {
  const info = await findBucket(manager, settings);
  return {
    name: settings.name,
    exists: info !== undefined,
    mismatch: info && bucketMismatch(info, settings, setBy),
  };
}

/** The server's time is the creation time of a consumer, which is deleted at once. */
async function readClock(
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
