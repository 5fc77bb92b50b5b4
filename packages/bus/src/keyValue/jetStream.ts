import {
  JetStreamApiCodes,
  JetStreamApiError,
  JetStreamError,
  jetstream,
  jetstreamManager,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { errors, type NatsConnection } from '@nats-io/transport-node';
import { connectNats, followStatus, REFUSED } from '../nats/connectNats.ts';
import { describeMismatch, type Mismatch, mismatchError } from '../nats/streamMismatch.ts';
import { bucketMismatch, ensureBucket } from './bucketConfig.ts';
import { createCircuitBreaker } from './circuitBreaker.ts';
import { assertFits, type KeyValueBucket, type KeyValueEntry, type KeyValueSettings } from './keyValue.ts';

const DEFAULT_TIMEOUT_MS = 250;
/** NATS's codes for a key that is not at the expected revision. */
const OTHER_REVISION: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
];

export interface JetStreamBucketOptions {
  /** One address or several with commas: `nats://host:4222`. */
  readonly url: string;
  /** The client's name in the server's list of connections. */
  readonly clientName: string;
  /** The names of the settings that configure the bucket, for error messages. */
  readonly setBy: string;
  /** How long a call waits for a response. Default: 250. */
  readonly timeoutMs?: number;
  /** A failure from which the bucket recovers by itself. */
  readonly onError: (error: unknown, what: string) => void;
}

/**
 * A bucket of distributed mode. It has its own connection, so that large messages do not delay it. Creates the bucket if it
 * does not exist. Rejects if NATS is unreachable, or, with how to fix it, if the existing bucket has other settings.
 */
export async function openJetStreamBucket(
  options: JetStreamBucketOptions,
  settings: KeyValueSettings,
): Promise<KeyValueBucket> {
  const connection = await connectNats(options.url, options.clientName);
  try {
    const mismatch = await ensureWithMismatch(connection, options, settings);
    if (mismatch) throw mismatchError(mismatch);
    const timeout = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    const kv = await new Kvm(jetstream(connection, { timeout, checkAPI: false })).open(settings.name);
    return new JetStreamBucket(connection, kv, options, settings);
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function ensureWithMismatch(
  connection: NatsConnection,
  { setBy }: JetStreamBucketOptions,
  settings: KeyValueSettings,
): Promise<Mismatch | undefined> {
  const info = await ensureBucket(await jetstreamManager(connection), settings, setBy);
  return bucketMismatch(info, settings, setBy);
}

class JetStreamBucket implements KeyValueBucket {
  readonly #connection: NatsConnection;
  readonly #kv: KV;
  readonly #options: JetStreamBucketOptions;
  readonly #settings: KeyValueSettings;
  readonly #breaker = createCircuitBreaker(() => performance.now());
  #isConnected = true;
  #isClosed = false;
  #recreating: Promise<void> | undefined;

  constructor(
    connection: NatsConnection,
    kv: KV,
    options: JetStreamBucketOptions,
    settings: KeyValueSettings,
  ) {
    this.#connection = connection;
    this.#kv = kv;
    this.#options = options;
    this.#settings = settings;
    void followStatus(connection, {
      onDisconnect: () => {
        this.#isConnected = false;
        options.onError(
          undefined,
          `lost the connection to NATS for the bucket ${settings.name}; reconnecting`,
        );
      },
      onReconnect: () => {
        this.#isConnected = true;
      },
      onRefusal: (error) => options.onError(error, REFUSED),
    });
  }

  get(key: string): Promise<KeyValueEntry | undefined> {
    return this.#call(key, undefined, async () => {
      const entry = await this.#kv.get(key);
      if (entry?.operation !== 'PUT') return undefined;
      return { value: entry.value, revision: entry.revision };
    });
  }

  create(key: string, value: Uint8Array): Promise<number | undefined> {
    return this.#call(key, value, () => undefinedIfChanged(this.#kv.create(key, value)));
  }

  update(key: string, value: Uint8Array, revision: number): Promise<number | undefined> {
    return this.#call(key, value, () => undefinedIfChanged(this.#kv.update(key, value, revision)));
  }

  put(key: string, value: Uint8Array): Promise<void> {
    return this.#call(key, value, async () => void (await this.#kv.put(key, value)));
  }

  delete(key: string): Promise<void> {
    return this.#call(key, undefined, () => this.#kv.delete(key));
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#connection.close();
    await this.#recreating;
  }

  /** Bounds an operation by the time-out, whatever it does on the server, and by the circuit breaker. */
  async #call<T>(key: string, value: Uint8Array | undefined, operation: () => Promise<T>): Promise<T> {
    const { name } = this.#settings;
    if (this.#isClosed) throw new Error(`the bucket ${name} is closed`);
    assertFits(this.#settings, key, value);
    // While disconnected, the client would queue requests without a bound.
    if (!this.#isConnected) throw new Error(`the bucket ${name} is unreachable: NATS is not connected`);
    const end = this.#breaker.begin();
    if (!end) throw new Error(`the bucket ${name} is unreachable: NATS does not respond`);
    const timeoutMs = this.#options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    let timer: NodeJS.Timeout | undefined;
    const timeout = new Promise<typeof TIMED_OUT>((resolve) => {
      timer = setTimeout(() => resolve(TIMED_OUT), timeoutMs);
    });
    try {
      const result = await Promise.race([operation(), timeout]);
      if (result === TIMED_OUT) throw new BucketTimeoutError(name, timeoutMs);
      end(true);
      return result;
    } catch (error) {
      const isTimeout = error instanceof BucketTimeoutError || error instanceof errors.TimeoutError;
      end(!isTimeout);
      if (isBucketMissing(error) && !this.#isClosed) this.#recreate();
      throw isTimeout ? new BucketTimeoutError(name, timeoutMs) : error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** After someone deleted the bucket. One with other settings is used, and reported. */
  #recreate(): void {
    const { onError } = this.#options;
    this.#recreating ??= ensureWithMismatch(this.#connection, this.#options, this.#settings)
      .then((mismatch) => {
        if (mismatch) onError(undefined, describeMismatch(mismatch));
      })
      .catch((error) => onError(error, `failed to create the bucket ${this.#settings.name} again`))
      .finally(() => {
        this.#recreating = undefined;
      });
  }
}

const TIMED_OUT = Symbol('timed out');

class BucketTimeoutError extends Error {
  constructor(name: string, timeoutMs: number) {
    super(`the bucket ${name} did not respond within ${timeoutMs} ms`);
  }
}

/** A read fails with an API error, a write with "no responders". */
function isBucketMissing(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === JetStreamApiCodes.StreamNotFound;
  return error instanceof JetStreamError && error.cause instanceof errors.RequestError;
}

async function undefinedIfChanged(written: Promise<number>): Promise<number | undefined> {
  try {
    return await written;
  } catch (error) {
    if (error instanceof JetStreamApiError && OTHER_REVISION.includes(error.code)) return undefined;
    throw error;
  }
}
