import { mkdir, mkdtemp, open, readdir, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BucketOptions, createBucketStore } from './bucketStore.ts';
import { DayWriter, type FileBounds, fileBounds } from './dayWriter.ts';
import type { DuckSql } from './duck.ts';
import { Engine, type Row, type Statement, StatementTooLargeError } from './engine.ts';
import { createFolderStore } from './folderStore.ts';
import { type ArchivedFile, SCHEMA_VERSION } from './manifest.ts';
import { onFiles } from './onFiles.ts';
import type { ArchiveStore } from './store.ts';
import { type ReadFaults, watchReads } from './watchReads.ts';

export interface ArchiveOptions {
  /** `file:///…` or `s3://bucket/prefix` */
  readonly url: string;
  /** Of a bucket alone. */
  readonly bucket: Pick<BucketOptions, 'region' | 'endpoint' | 'credentials' | 'cacheBytes'>;
  /** Below it, this process has its temporary files. */
  readonly workDir: string;
  readonly memoryBytes: number;
  readonly threads: number;
  /** How long a statement may take. */
  readonly timeoutMs: number;
  /** The most bytes of files that a statement may read: of a bucket, they are copied to this machine. */
  readonly maxReadBytes: number;
  /** Waits between tries of a call of a bucket. */
  readonly retryAfterMs: readonly number[];
}

/** Beside the days: what wrote this archive. */
const MARKER = '_archive.json';
const TEMPORARY = 'temporary-';
/** A process that runs marks its folder as in use each hour. */
const MARK_EVERY_MS = 3_600_000;
const ABANDONED_MS = 24 * MARK_EVERY_MS;
const BUCKET_TIMEOUT_MS = 15_000;
/** Of this process. */
interface TemporaryFolder {
  readonly tempDir: string;
  readonly marking: NodeJS.Timeout;
}

interface Limits {
  readonly maxReadBytes: number;
  /** Of each file that is written. */
  readonly file: FileBounds;
}

/** The ledger's archive, as this process uses it. */
export class Archive {
  readonly store: ArchiveStore;
  readonly faults: ReadFaults;
  readonly #engine: Engine;
  readonly #folder: TemporaryFolder;
  readonly #limits: Limits;

  constructor(store: ArchiveStore, engine: Engine, folder: TemporaryFolder, limits: Limits) {
    const { store: watched, faults } = watchReads(store);
    this.store = watched;
    this.faults = faults;
    this.#engine = engine;
    this.#folder = folder;
    this.#limits = limits;
  }

  /** The same, with another store of the same files. */
  with(store: ArchiveStore): Archive {
    return new Archive(store, this.#engine, this.#folder, this.#limits);
  }

  /** Rows of a statement on files, at most `limit`. `statement` gets the relation of their rows. */
  async rows(
    files: readonly ArchivedFile[],
    statement: (relation: DuckSql) => DuckSql,
    limit: number,
  ): Promise<Row[]> {
    if (files.length === 0) return [];
    return await this.#engine.rows(this.#on(files, statement), limit);
  }

  /** As `rows`, some thousands at a time, and for as long as `timeoutMs`. */
  async *stream(
    files: readonly ArchivedFile[],
    statement: (relation: DuckSql) => DuckSql,
    timeoutMs: number,
  ): AsyncGenerator<Row[]> {
    if (files.length === 0) return;
    yield* this.#engine.stream(this.#on(files, statement), timeoutMs);
  }

  writeDay(day: Date, bounds = this.#limits.file): DayWriter {
    return new DayWriter(
      { engine: this.#engine, store: this.store, tempDir: this.#folder.tempDir },
      day,
      bounds,
    );
  }

  /** Throws if files can't be stored. */
  async assertWritable(): Promise<void> {
    await this.putText(MARKER, `${JSON.stringify({ schema_version: SCHEMA_VERSION })}\n`);
  }

  async putText(name: string, content: string): Promise<void> {
    await this.putLines(name, (write) => write(content));
  }

  /** Stores a file that `make` writes in portions; resolves with what it returns. */
  async putLines<T>(name: string, make: (write: (lines: string) => Promise<void>) => Promise<T>): Promise<T> {
    const path = join(this.#folder.tempDir, 'lines');
    try {
      const handle = await open(path, 'w', 0o600);
      const made = await make((lines) => handle.writeFile(lines)).finally(() => handle.close());
      await this.store.put(name, path);
      return made;
    } finally {
      await rm(path, { force: true });
    }
  }

  async close(): Promise<void> {
    await this.#engine.close();
    await this.store.close();
    clearInterval(this.#folder.marking);
    await rm(this.#folder.tempDir, { recursive: true, force: true });
  }

  #on(files: readonly ArchivedFile[], statement: (relation: DuckSql) => DuckSql): Statement {
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const { maxReadBytes } = this.#limits;
    if (bytes > maxReadBytes) {
      throw new StatementTooLargeError(`${bytes} bytes of files, and at most ${maxReadBytes} are copied`);
    }
    return onFiles(this.store, files, statement);
  }
}

/** Opens an archive, without reading it: DuckDB is loaded when it is first needed. */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { workDir, memoryBytes, threads, timeoutMs } = options;
  await removeAbandoned(workDir);
  const tempDir = await mkdtemp(join(workDir, TEMPORARY));
  const marking = setInterval(
    () => void utimes(tempDir, new Date(), new Date()).catch(() => {}),
    MARK_EVERY_MS,
  );
  marking.unref();
  const store = openStore(options, tempDir);
  const engine = new Engine({ memoryBytes, threads, tempDir, folders: store.localFolders, timeoutMs });
  const folder = { tempDir, marking };
  // Files of a folder are read where they are.
  const maxReadBytes = store.copies ? options.maxReadBytes : Number.POSITIVE_INFINITY;
  return new Archive(store, engine, folder, { maxReadBytes, file: fileBounds(memoryBytes) });
}

function openStore({ url, bucket, retryAfterMs }: ArchiveOptions, tempDir: string): ArchiveStore {
  const { protocol, hostname, pathname } = new URL(url);
  if (protocol === 'file:') return createFolderStore(fileURLToPath(url));
  return createBucketStore({
    ...bucket,
    bucket: hostname,
    prefix: pathname.replace(/^\/+|\/+$/g, ''),
    cacheDir: join(tempDir, 'cache'),
    timeoutMs: BUCKET_TIMEOUT_MS,
    retryAfterMs,
  });
}

/** Makes the folder, and deletes what processes left in it that did not end by themselves. */
async function removeAbandoned(workDir: string): Promise<void> {
  await mkdir(workDir, { recursive: true, mode: 0o700 });
  for (const name of await readdir(workDir)) {
    if (!name.startsWith(TEMPORARY)) continue;
    const path = join(workDir, name);
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > ABANDONED_MS) await rm(path, { recursive: true, force: true });
  }
}
