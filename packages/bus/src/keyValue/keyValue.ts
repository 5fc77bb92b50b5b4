/** The buckets of the proxies, by name: NATS gives permissions by it. */
export const PIN_BUCKET = 'SESSION_PINS';
export const CACHE_BUCKET = 'RESPONSE_CACHE';
export const RESPONSE_BUCKET = 'STORED_RESPONSES';

export interface KeyValueEntry {
  readonly value: Uint8Array;
  /** Grows with every change in the bucket, and is unique in it. */
  readonly revision: number;
}

/**
 * Small, short-lived values that the proxies share, by key. A key consists of `[A-Za-z0-9_=.-]`: hash what comes from
 * clients. Every call rejects after a time-out, and once the bucket is closed; a call that timed out may still have been
 * applied.
 */
export interface KeyValueBucket {
  /** The latest value, from any process; undefined if there is none or it has expired. */
  get(key: string): Promise<KeyValueEntry | undefined>;

  /** Resolves with the revision of the new value, or with undefined if the key exists. */
  create(key: string, value: Uint8Array): Promise<number | undefined>;

  /** Resolves with the revision of the new value, or with undefined if the key has another revision by now. */
  update(key: string, value: Uint8Array, revision: number): Promise<number | undefined>;

  /** Writes the value whether the key exists or not. */
  put(key: string, value: Uint8Array): Promise<void>;

  delete(key: string): Promise<void>;

  close(): Promise<void>;
}

export interface KeyValueSettings {
  /** Letters, digits, `_` and `-`. */
  readonly name: string;
  /** A value expires this long after it was written; at least 100. */
  readonly ttlMs: number;
  /** Of all keys and values; beyond it, the oldest values are dropped. */
  readonly maxBytes: number;
  readonly maxValueBytes: number;
  /** How many NATS servers store the bucket: an odd number in a cluster; 1 without a cluster. */
  readonly replicas: number;
}

const KEY = /^[\w=-]+(\.[\w=-]+)*$/;
const MAX_KEY_LENGTH = 256;

/** Throws for an invalid key or a value that is too large: a bug in the code that calls. */
export function assertFits(settings: KeyValueSettings, key: string, value?: Uint8Array): void {
  if (key.length > MAX_KEY_LENGTH || !KEY.test(key)) {
    throw new Error(
      `${JSON.stringify(key.slice(0, MAX_KEY_LENGTH))} is not a valid key of the bucket ${settings.name}`,
    );
  }
  if (value && value.length > settings.maxValueBytes) {
    throw new Error(`a value of ${value.length} bytes is larger than the bucket ${settings.name} accepts`);
  }
}
