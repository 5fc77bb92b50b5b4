import { Journal, type JournalEntry, type JournalOptions, readJournal } from './journal.ts';
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
  return openBucket(settings, nowMs, new Map(), undefined);
}

/** The same, and its values survive the end of the process, in a file. */
export async function openFileBucket(
  settings: KeyValueSettings,
  options: JournalOptions,
): Promise<KeyValueBucket> {
  const nowMs = () => performance.now();
  const entries = new Map<string, StoredEntry>();
  for await (const { key, value, revision, writtenAtMs } of readJournal(options.path)) {
    entries.delete(key);
    const age = Math.max(0, Date.now() - writtenAtMs);
    if (value && age < settings.ttlMs) {
      entries.set(key, { value, revision, expiresAtMs: nowMs() + settings.ttlMs - age });
    }
  }
  const journal = await Journal.create(options, journalOf(entries, settings, nowMs));
  return openBucket(settings, nowMs, entries, journal);
}

function* journalOf(
  entries: ReadonlyMap<string, StoredEntry>,
  { ttlMs }: KeyValueSettings,
  nowMs: () => number,
): Generator<JournalEntry> {
  for (const [key, { value, revision, expiresAtMs }] of entries) {
    yield { key, value, revision, writtenAtMs: Math.round(Date.now() + expiresAtMs - nowMs() - ttlMs) };
  }
}

function openBucket(
  settings: KeyValueSettings,
  nowMs: () => number,
  /** In the order of writing, which is the order of expiry. */
  entries: Map<string, StoredEntry>,
  journal: Journal | undefined,
): KeyValueBucket {
  const { name, ttlMs, maxBytes } = settings;
  let lastRevision = 0;
  let bytes = 0;
  for (const [key, { value, revision }] of entries) {
    lastRevision = Math.max(lastRevision, revision);
    bytes += sizeOf(key, value);
  }
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
  const write = async (key: string, value: Uint8Array): Promise<number> => {
    remove(key);
    const revision = ++lastRevision;
    entries.set(key, { value: value.slice(), revision, expiresAtMs: nowMs() + ttlMs });
    bytes += sizeOf(key, value);
    dropOld();
    if (journal) await keep(journal, key, value, revision);
    return revision;
  };
  const keep = (journal: Journal, key: string, value: Uint8Array | undefined, revision: number) =>
    journal.append({ key, value, revision, writtenAtMs: Date.now() }, () =>
      journalOf(entries, settings, nowMs),
    );
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
      return find(key) ? undefined : await write(key, value);
    },
    async update(key, value, revision) {
      assertUsable(key, value);
      return find(key)?.revision === revision ? await write(key, value) : undefined;
    },
    async put(key, value) {
      assertUsable(key, value);
      await write(key, value);
    },
    async delete(key) {
      assertUsable(key);
      remove(key);
      if (journal) await keep(journal, key, undefined, lastRevision);
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      await journal?.close();
      entries.clear();
    },
  };
}

function sizeOf(key: string, value: Uint8Array): number {
  return key.length + value.length + ENTRY_BYTES;
}
