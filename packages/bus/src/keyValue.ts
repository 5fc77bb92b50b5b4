/** What a bucket holds for a key. */
export interface KeyValueEntry {
  readonly value: Uint8Array;
  /** Grows with every change in the bucket; no two values have the same. */
  readonly revision: number;
}

/**
 * Small values that the proxies share for a while, by key. Keys are made of `[A-Za-z0-9_=.-]`: hash what comes from
 * callers. Every call rejects when it is not answered within a time-out, and once the bucket is closed; a call that was
 * not answered may have been done all the same.
 */
export interface KeyValueBucket {
  /** What was written last, by whichever process; undefined where nothing was, or where that is too long ago. */
  get(key: string): Promise<KeyValueEntry | undefined>;

  /** Resolves with the revision of the new value; with undefined where the key is there already. */
  create(key: string, value: Uint8Array): Promise<number | undefined>;

  /** Resolves with the revision of the new value; with undefined where the key is not at this revision any more. */
  update(key: string, value: Uint8Array, revision: number): Promise<number | undefined>;

  /** Writes over whatever is there. */
  put(key: string, value: Uint8Array): Promise<void>;

  delete(key: string): Promise<void>;

  close(): Promise<void>;
}

export interface KeyValueSettings {
  /** Of letters, digits, `_` and `-`. */
  readonly name: string;
  /** How long a value is kept after it was written; at least 100. */
  readonly ttlMs: number;
  /** What all values may take with their keys: beyond, those that were written first are dropped. */
  readonly maxBytes: number;
  readonly maxValueBytes: number;
  /** How many NATS servers keep it, an odd number in a cluster; 1 without one. */
  readonly replicas: number;
}

const KEY = /^[\w=-]+(\.[\w=-]+)*$/;
const MAX_KEY_LENGTH = 256;

/** Throws where a key is none, or a value is larger than the bucket takes: a mistake of whoever calls. */
export function requireFit(settings: KeyValueSettings, key: string, value?: Uint8Array): void {
  if (key.length > MAX_KEY_LENGTH || !KEY.test(key)) {
    throw new Error(
      `${JSON.stringify(key.slice(0, MAX_KEY_LENGTH))} is no key of the bucket ${settings.name}`,
    );
  }
  if (value && value.length > settings.maxValueBytes) {
    throw new Error(`the bucket ${settings.name} takes no value of ${value.length} bytes`);
  }
}
