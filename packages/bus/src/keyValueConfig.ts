import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  RetentionPolicy,
  StorageType,
  type StreamInfo,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import type { KeyValueSettings } from './keyValue.ts';
import { configDifferences, STREAM_NAME_IN_USE } from './streamConfig.ts';

/** What the server counts of a message beside its value. */
const HEADER_BYTES = 1_024;

const streamOf = (name: string): string => `KV_${name}`;

/**
 * The stream below a bucket as it is, created where it is missing. Rejects with a time-out, or with what to mend where NATS
 * does not create it. `setBy` names the settings that decide how it should be.
 */
export async function ensureBucket(
  manager: JetStreamManager,
  settings: KeyValueSettings,
  setBy: string,
): Promise<StreamInfo> {
  const stream = streamOf(settings.name);
  const found = await findBucket(manager, settings);
  if (found) return found;
  try {
    return await manager.streams.add({ name: stream, ...wantedBucket(settings) });
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error;
    if (error.code === STREAM_NAME_IN_USE) return manager.streams.info(stream);
    throw new Error(`NATS does not create the bucket ${settings.name}: ${error.message}. Check ${setBy}`, {
      cause: error,
    });
  }
}

/** The stream below a bucket as it is; undefined where there is none. */
export async function findBucket(
  manager: JetStreamManager,
  { name }: Pick<KeyValueSettings, 'name'>,
): Promise<StreamInfo | undefined> {
  try {
    return await manager.streams.info(streamOf(name));
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound)
      return undefined;
    throw error;
  }
}

/**
 * What is wrong with a bucket, and how to mend it; undefined where nothing is. A field that a server of another version
 * does not know counts as being as it should.
 */
export function bucketMismatch(
  { config }: Pick<StreamInfo, 'config'>,
  settings: KeyValueSettings,
  setBy: string,
): string | undefined {
  const { name } = settings;
  const differences = configDifferences(config, { ...wantedBucket(settings), ...UNLIMITED });
  if (differences === undefined) return undefined;
  return [
    `The bucket ${name} in NATS is not as it should be: ${differences}.`,
    `To mend it, set ${setBy} to what it has, the same for every process;`,
    `or edit it (nats stream edit ${streamOf(name)});`,
    `or delete it (nats kv del ${name}): it is created anew, and what it held is forgotten.`,
  ].join(' ');
}

function wantedBucket({ name, ttlMs, maxBytes, maxValueBytes, replicas }: KeyValueSettings) {
  return {
    subjects: [`$KV.${name}.>`],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    max_msgs_per_subject: 1,
    max_age: nanos(ttlMs),
    // A full bucket forgets what was written first: it is no place for what must not be lost.
    discard: DiscardPolicy.Old,
    max_bytes: maxBytes,
    max_msg_size: maxValueBytes + HEADER_BYTES,
    num_replicas: replicas,
    // For the operator's own tools.
    allow_rollup_hdrs: true,
    // Any server of a cluster could answer, with what it has so far: whoever lost a race has to see who won it.
    allow_direct: false,
  };
}

/** What a new stream has by default. Any other value drops values, refuses them or leaves writers unanswered. */
const UNLIMITED = { max_msgs: -1, max_consumers: -1, sealed: false, no_ack: false };
