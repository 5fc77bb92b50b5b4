import { type KeyValueBucket, type KeyValueEntry, type KeyValueSettings, requireFit } from './keyValue.ts';

interface Kept extends KeyValueEntry {
  readonly expiresAtMs: number;
}

/** What an entry takes beside its key and its value, about. */
const ENTRY_BYTES = 200;

/** A bucket of embedded mode: the one process that uses it holds it in memory. `nowMs` is monotonic. */
export function createInProcessBucket(
  settings: KeyValueSettings,
  nowMs: () => number = () => performance.now(),
): KeyValueBucket {
  const { name, ttlMs, maxBytes } = settings;
  // What was written first is first, and so the first to expire.
  const entries = new Map<string, Kept>();
  let lastRevision = 0;
  let bytes = 0;
  let closed = false;

  const remove = (key: string): void => {
    const kept = entries.get(key);
    if (!kept) return;
    bytes -= sizeOf(key, kept.value);
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
  const find = (key: string): Kept | undefined => {
    const kept = entries.get(key);
    return kept && kept.expiresAtMs > nowMs() ? kept : undefined;
  };
  const require = (key: string, value?: Uint8Array): void => {
    if (closed) throw new Error(`the bucket ${name} is closed`);
    requireFit(settings, key, value);
  };

  return {
    async get(key) {
      require(key);
      const found = find(key);
      return found && { value: found.value, revision: found.revision };
    },
    async create(key, value) {
      require(key, value);
      return find(key) ? undefined : write(key, value);
    },
    async update(key, value, revision) {
      require(key, value);
      return find(key)?.revision === revision ? write(key, value) : undefined;
    },
    async put(key, value) {
      require(key, value);
      write(key, value);
    },
    async delete(key) {
      require(key);
      remove(key);
    },
    async close() {
      closed = true;
      entries.clear();
    },
  };
}

function sizeOf(key: string, value: Uint8Array): number {
  return key.length + value.length + ENTRY_BYTES;
}
