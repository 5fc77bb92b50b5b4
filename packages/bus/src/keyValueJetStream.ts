import {
  JetStreamApiCodes,
  JetStreamApiError,
  JetStreamError,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { connect, errors, type NatsConnection } from '@nats-io/transport-node';
import { type KeyValueBucket, type KeyValueSettings, requireFit } from './keyValue.ts';
import { bucketMismatch, ensureBucket } from './keyValueConfig.ts';
import { createPatience } from './patience.ts';

const CONNECT_TIMEOUT_MS = 5_000;
const DEFAULT_TIMEOUT_MS = 250;
/** NATS's codes for a key that is not at the expected revision. */
const OTHER_REVISION: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
];

export interface JetStreamBucketOptions {
  /** One address or several with commas: `nats://host:4222`. */
  readonly url: string;
  /** Shown by the server in its list of connections. */
  readonly clientName: string;
  /** The names of the settings that decide how the bucket should be, for whoever has to mend one that differs. */
  readonly setBy: string;
  /** How long a call waits for its answer. Default: 250. */
  readonly timeoutMs?: number;
  /** A failure that the bucket recovers from by itself. */
  readonly onError: (error: unknown, what: string) => void;
}

/**
 * A bucket of distributed mode, on a connection of its own: nothing large that others send delays it. Creates it where it
 * is missing. Rejects when NATS can't be reached, and, saying what to mend, where the bucket is there but is not as it
 * should be.
 */
export async function openJetStreamBucket(
  options: JetStreamBucketOptions,
  settings: KeyValueSettings,
): Promise<KeyValueBucket> {
  const connection = await connect({
    servers: options.url.split(','),
    name: options.clientName,
    timeout: CONNECT_TIMEOUT_MS,
    maxReconnectAttempts: -1,
  }).catch((error) => {
    throw new Error('NATS does not answer. Check NATS_URL', { cause: error });
  });
  try {
    const mismatch = await ensuredMismatch(connection, options, settings);
    if (mismatch) throw new Error(mismatch);
    const timeout = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const kv = await new Kvm(jetstream(connection, { timeout, checkAPI: false })).open(settings.name);
    return bucketOn(connection, kv, options, settings);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function ensuredMismatch(
  connection: NatsConnection,
  { setBy }: JetStreamBucketOptions,
  settings: KeyValueSettings,
): Promise<string | undefined> {
  const info = await ensureBucket(await jetstreamManager(connection), settings, setBy);
  return bucketMismatch(info, settings, setBy);
}

function bucketOn(
  connection: NatsConnection,
  kv: KV,
  options: JetStreamBucketOptions,
  settings: KeyValueSettings,
): KeyValueBucket {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, onError } = options;
  const { name } = settings;
  const patience = createPatience(() => performance.now());
  let isConnected = true;
  let closed = false;
  let mending: Promise<void> | undefined;

  void followStatus(connection, (isBack) => {
    isConnected = isBack;
    if (!isBack) onError(undefined, `the connection to NATS was lost for the bucket ${name}; reconnecting`);
  });

  /** Somebody deleted it: used also where the new one is not as it should be, but not silently. */
  const bringBack = (): void => {
    mending ??= ensuredMismatch(connection, options, settings)
      .then((mismatch) => {
        if (mismatch) onError(undefined, mismatch);
      })
      .catch((error) => onError(error, `the bucket ${name} could not be brought back`))
      .finally(() => {
        mending = undefined;
      });
  };

  /** One question to the server, whatever it takes there: answered in time, or rejected. */
  async function ask<T>(key: string, value: Uint8Array | undefined, question: () => Promise<T>): Promise<T> {
    if (closed) throw new Error(`the bucket ${name} is closed`);
    requireFit(settings, key, value);
    // The client would keep what is sent meanwhile, without a bound.
    if (!isConnected) throw new Error(`the bucket ${name} is out of reach: NATS is not connected`);
    const ended = patience.begin();
    if (!ended) throw new Error(`the bucket ${name} is out of reach: NATS does not answer`);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<typeof LATE>((resolve) => {
      timer = setTimeout(() => resolve(LATE), timeoutMs);
    });
    try {
      const answer = await Promise.race([question(), late]);
      if (answer === LATE) throw new LateError(name, timeoutMs);
      ended(true);
      return answer;
    } catch (error) {
      const isLate = error instanceof LateError || error instanceof errors.TimeoutError;
      ended(!isLate);
      if (isBucketGone(error) && !closed) bringBack();
      throw isLate ? new LateError(name, timeoutMs) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    get: (key) =>
      ask(key, undefined, async () => {
        const entry = await kv.get(key);
        if (entry?.operation !== 'PUT') return undefined;
        return { value: entry.value, revision: entry.revision };
      }),
    create: (key, value) => ask(key, value, () => unlessChanged(kv.create(key, value))),
    update: (key, value, revision) => ask(key, value, () => unlessChanged(kv.update(key, value, revision))),
    put: (key, value) => ask(key, value, async () => void (await kv.put(key, value))),
    delete: (key) => ask(key, undefined, () => kv.delete(key)),
    async close() {
      if (closed) return;
      closed = true;
      await connection.close();
      await mending;
    },
  };
}

const LATE = Symbol('late');

class LateError extends Error {
  constructor(name: string, timeoutMs: number) {
    super(`the bucket ${name} did not answer within ${timeoutMs} ms`);
  }
}

/** What is asked for it then is an error of JetStream's, what is written to it is heard by nobody. */
function isBucketGone(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === JetStreamApiCodes.StreamNotFound;
  return error instanceof JetStreamError && error.cause instanceof errors.RequestError;
}

/** Undefined where the key was not at the expected revision. */
async function unlessChanged(written: Promise<number>): Promise<number | undefined> {
  try {
    return await written;
  } catch (error) {
    if (error instanceof JetStreamApiError && OTHER_REVISION.includes(error.code)) return undefined;
    throw error;
  }
}

async function followStatus(connection: NatsConnection, tell: (isConnected: boolean) => void): Promise<void> {
  for await (const status of connection.status()) {
    if (status.type === 'disconnect') tell(false);
    if (status.type === 'reconnect') tell(true);
  }
}
