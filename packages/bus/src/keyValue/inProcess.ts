import { assertFits, type KeyValueBucket, type KeyValueEntry, type KeyValueSettings } from './keyValue.ts';

interface StoredEntry extends KeyValueEntry {
  readonly expiresAtMs: number;
}

/** The estimated overhead of an entry, beside its key and its value. */
const ENTRY_BYTES = 200;

/** The bucket of embedded mode, in the memory of its only process. `nowMs` is monotonic. */
export function createInProcessBucket(
  settings: KeyValueSettings,
  nowMs: () => number = () => performance.now(),
): KeyValueBucket {
  const { name, ttlMs, maxBytes } = settings;
  // In the order of writing, which is the order of expiry.
  const entries = new Map<string, StoredEntry>();
  let lastRevision = 0;
  let bytes = 0;
  let isClosed = false;

  const remove = (key: string): void => {
    const entry = entries.get(key);
    if (!entry) return;
    bytes -= sizeOf(key, entry.value);
    entries.delete(key);
  };
  const dropOld = (): void => {
    for (const [key, { expiresAtMs }] of entries) {
      if (expiresAtMs > nowMs() && bytes <= maxBytes) return;
      remove(key);
    }
  };
  const write = (key: string, value: Uint8Array): number => {
    remove(key);
    const revision = ++lastRevision;
    entries.set(key, { value: value.slice(), revision, expiresAtMs: nowMs() + ttlMs });
    bytes += sizeOf(key, value);
    dropOld();
    return revision;
  };
  const find = (key: string): StoredEntry | undefined => {
    const entry = entries.get(key);
    return entry && entry.expiresAtMs > nowMs() ? entry : undefined;
  };
  const assertUsable = (key: string, value?: Uint8Array): void => {
    if (isClosed) throw new Error(`the bucket ${name} is closed`);
    assertFits(settings, key, value);
  };

  return {
    async get(key) {
      assertUsable(key);
      const entry = find(key);
      return entry && { value: entry.value, revision: entry.revision };
    },
    async create(key, value) {
      assertUsable(key, value);
      return find(key) ? undefined : write(key, value);
    },
    async update(key, value, revision) {
      assertUsable(key, value);
      return find(key)?.revision === revision ? write(key, value) : undefined;
    },
    async put(key, value) {
      assertUsable(key, value);
      write(key, value);
    },
    async delete(key) {
      assertUsable(key);
      remove(key);
    },
    async close() {
      isClosed = true;
      entries.clear();
    },
  };
}

function sizeOf(key: string, value: Uint8Array): number {
  return key.length + value.length + ENTRY_BYTES;
}
