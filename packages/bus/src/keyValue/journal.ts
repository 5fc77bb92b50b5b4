import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { createInterface } from 'node:readline';

/** A write of a key, or its deletion where `value` is undefined. */
export interface JournalEntry {
  readonly key: string;
  readonly value: Uint8Array | undefined;
  readonly revision: number;
  /** Unix milliseconds: a monotonic clock starts again with the process. */
  readonly writtenAtMs: number;
}

export interface JournalOptions {
  readonly path: string;
  /** Called for the first of several writes in a row that fail. */
  readonly onError: (error: unknown, what: string) => void;
}

/** Below this size, the file is not written again without what is superseded in it. */
const MIN_COMPACTED_BYTES = 1024 * 1024;

/**
 * What was written to a bucket, in a file of one line per write, so that it survives the end of the process. It is not
 * synced to the disk: the end of the machine may lose the last writes. Only one process may use the file.
 */
export class Journal {
  readonly #options: JournalOptions;
  #file: FileHandle;
  #bytes: number;
  #compactedBytes: number;
  #pending: string[] = [];
  /** The write that includes what is pending; it begins once `#current` is over. */
  #next: Promise<void> | undefined;
  #current: Promise<void> = Promise.resolve();
  #hasFailed = false;

  private constructor(options: JournalOptions, { file, bytes }: Compacted) {
    this.#options = options;
    this.#file = file;
    this.#bytes = bytes;
    this.#compactedBytes = bytes;
  }

  /** Starts the file with these entries alone. */
  static async create(options: JournalOptions, entries: Iterable<JournalEntry>): Promise<Journal> {
    return new Journal(options, await writeCompacted(options.path, entries));
  }

  /**
   * Resolves once the entry is in the file, or can't be written. `live` gives all entries that are in force, for a file that
   * has grown too large.
   */
  append(entry: JournalEntry, live: () => Iterable<JournalEntry>): Promise<void> {
    this.#pending.push(lineOf(entry));
    this.#next ??= this.#current.then(() => {
      const lines = this.#pending.join('');
      this.#pending = [];
      this.#next = undefined;
      this.#current = this.#write(lines, live);
      return this.#current;
    });
    return this.#next;
  }

  async close(): Promise<void> {
    await this.#next;
    await this.#current;
    await this.#file.close();
  }

  async #write(lines: string, live: () => Iterable<JournalEntry>): Promise<void> {
    try {
      await this.#file.appendFile(lines);
      this.#bytes += Buffer.byteLength(lines);
      if (this.#bytes > Math.max(MIN_COMPACTED_BYTES, 2 * this.#compactedBytes)) {
        // If it fails, it is tried again once the file has doubled.
        this.#compactedBytes = this.#bytes;
        await this.#compact(live());
      }
      this.#hasFailed = false;
    } catch (error) {
      const { path, onError } = this.#options;
      if (!this.#hasFailed) onError(error, `failed to write ${path}; a restart forgets what is not in it`);
      this.#hasFailed = true;
    }
  }

  async #compact(entries: Iterable<JournalEntry>): Promise<void> {
    const { file, bytes } = await writeCompacted(this.#options.path, entries);
    const former = this.#file;
    this.#file = file;
    this.#bytes = bytes;
    this.#compactedBytes = bytes;
    await former.close();
  }
}

/** The entries of the file, in the order of writing; none without a file. A line that was not written whole is left out. */
export async function* readJournal(path: string): AsyncGenerator<JournalEntry> {
  const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) {
      const entry = parseLine(line);
      if (entry) yield entry;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

interface Compacted {
  readonly file: FileHandle;
  readonly bytes: number;
}

/** Replaces the file at once, so that a process that ends in between leaves the former one. */
async function writeCompacted(path: string, entries: Iterable<JournalEntry>): Promise<Compacted> {
  const unfinished = `${path}.new`;
  const file = await open(unfinished, 'w', 0o600);
  try {
    let bytes = 0;
    let lines = '';
    const flush = async () => {
      await file.appendFile(lines);
      bytes += Buffer.byteLength(lines);
      lines = '';
    };
    for (const entry of entries) {
      lines += lineOf(entry);
      if (lines.length > MIN_COMPACTED_BYTES) await flush();
    }
    await flush();
    await rename(unfinished, path);
    return { file, bytes };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function lineOf({ key, value, revision, writtenAtMs }: JournalEntry): string {
  const text = value && Buffer.from(value).toString('base64');
  return `${JSON.stringify([key, revision, writtenAtMs, ...(text === undefined ? [] : [text])])}\n`;
}

function parseLine(line: string): JournalEntry | undefined {
  let fields: unknown;
  try {
    fields = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (!Array.isArray(fields)) return undefined;
  const [key, revision, writtenAtMs, text] = fields as unknown[];
  if (typeof key !== 'string' || !Number.isSafeInteger(revision) || !Number.isSafeInteger(writtenAtMs)) {
    return undefined;
  }
  const value = typeof text === 'string' ? Buffer.from(text, 'base64') : undefined;
  return { key, value, revision: Number(revision), writtenAtMs: Number(writtenAtMs) };
}
