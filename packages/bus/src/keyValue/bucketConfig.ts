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
import { configDifferences, type Mismatch, STREAM_NAME_IN_USE } from '../nats/streamMismatch.ts';
import type { KeyValueSettings } from './keyValue.ts';

/** The server counts a message's headers too. */
const HEADER_BYTES = 1_024;

const streamOf = (name: string): string => `KV_${name}`;

/**
 * Finds the bucket's stream, or creates it. Rejects with a time-out, or, if NATS refuses to create it, with the settings to
 * check: `setBy` names them.
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
    throw new Error(`NATS refused to create the bucket ${settings.name}: ${error.message}. Check ${setBy}`, {
      cause: error,
    });
  }
}

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

/** How the bucket differs from the settings; undefined if it does not. Fields unknown to the server are skipped. */
export function bucketMismatch(
  { config }: Pick<StreamInfo, 'config'>,
  settings: KeyValueSettings,
  setBy: string,
): Mismatch | undefined {
  const { name } = settings;
  const differences = configDifferences(config, { ...wantedBucket(settings), ...UNLIMITED });
  if (differences === undefined) return undefined;
  return {
    problem: `The bucket ${name} in NATS has other settings: ${differences}.`,
    fix: [
      `To fix it, set ${setBy} to its values, the same for every process;`,
      `or edit it (nats stream edit ${streamOf(name)});`,
      `or delete it (nats kv del ${name}): it is created again, empty.`,
    ].join(' '),
  };
}

function wantedBucket({ name, ttlMs, maxBytes, maxValueBytes, replicas }: KeyValueSettings) {
  return {
    subjects: [`$KV.${name}.>`],
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    max_msgs_per_subject: 1,
    max_age: nanos(ttlMs),
    // A full bucket drops the oldest values: it must not hold what may not be lost.
    discard: DiscardPolicy.Old,
    max_bytes: maxBytes,
    max_msg_size: maxValueBytes + HEADER_BYTES,
    num_replicas: replicas,
    // For the `nats` command line.
    allow_rollup_hdrs: true,
    // Direct reads may be stale, and the loser of a race has to see the winner's value.
    allow_direct: false,
  };
}

/** The defaults of a new stream. Any other value drops values, refuses them, or sends writers no response. */
const UNLIMITED = { max_msgs: -1, max_consumers: -1, sealed: false, no_ack: false };
