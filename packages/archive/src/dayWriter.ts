import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { COLUMN_NAMES, COLUMN_TYPES } from './columns.ts';
import { duck } from './duck.ts';
import type { Engine } from './engine.ts';
import { hashFile } from './hashFile.ts';
import { type ArchivedFile, dayFolder } from './manifest.ts';
import { onFiles } from './onFiles.ts';
import type { ArchiveStore } from './store.ts';

/** A row as Postgres writes it: an object with the columns of the archive. */
export interface StoredRow {
  readonly json: string;
  /** Admitted before the day, as corrections are. Such rows have files of their own: those of the day then cover hours, not months. */
  readonly isEarlier: boolean;
}

export interface FileBounds {
  readonly rows: number;
  /** Of JSON: about ten times as much as of Parquet. */
  readonly bytes: number;
}

const MAX_ROWS = 250_000;
const MAX_BYTES = 256 * 1024 * 1024;

/** DuckDB sorts a file in memory, where rows take a multiple of their JSON. */
export function fileBounds(memoryBytes: number): FileBounds {
  return { rows: MAX_ROWS, bytes: Math.min(MAX_BYTES, Math.floor(memoryBytes / 4)) };
}

/** A reader skips groups by their first and last admission, and reads one in milliseconds. */
const ROW_GROUP_ROWS = 20_480;
/** An attribution has at most some KB. */
const MAX_ROW_BYTES = 16 * 1024 * 1024;

interface Part {
  readonly prefix: string;
  files: number;
  rows: number;
  bytes: number;
  handle: FileHandle | undefined;
}

/** Writes the rows of a day, in any order, into files that a bounded number of rows have. */
export class DayWriter {
  readonly #engine: Engine;
  readonly #store: ArchiveStore;
  readonly #day: Date;
  readonly #tempDir: string;
  readonly #bounds: FileBounds;
  readonly #written: ArchivedFile[] = [];
  readonly #parts: Readonly<Record<'earlier' | 'attempts', Part>> = {
    earlier: { prefix: 'earlier', files: 0, rows: 0, bytes: 0, handle: undefined },
    attempts: { prefix: 'attempts', files: 0, rows: 0, bytes: 0, handle: undefined },
  };

  constructor(
    {
      engine,
      store,
      tempDir,
    }: { readonly engine: Engine; readonly store: ArchiveStore; readonly tempDir: string },
    day: Date,
    bounds: FileBounds,
  ) {
    this.#engine = engine;
    this.#store = store;
    this.#tempDir = tempDir;
    this.#day = day;
    this.#bounds = bounds;
  }

  async add(rows: readonly StoredRow[]): Promise<void> {
    await this.#addTo(
      this.#parts.earlier,
      rows.filter(({ isEarlier }) => isEarlier),
    );
    await this.#addTo(
      this.#parts.attempts,
      rows.filter(({ isEarlier }) => !isEarlier),
    );
  }

  /** The files, each whole in the archive and read back. */
  async finish(): Promise<readonly ArchivedFile[]> {
    for (const part of Object.values(this.#parts)) if (part.rows > 0) await this.#write(part);
    return this.#written;
  }

  /** Deletes what is left of a day that was not finished. */
  async close(): Promise<void> {
    for (const part of Object.values(this.#parts)) {
      await part.handle?.close();
      part.handle = undefined;
      await rm(this.#source(part), { force: true });
    }
  }

  async #addTo(part: Part, rows: readonly StoredRow[]): Promise<void> {
    for (let at = 0; at < rows.length; ) {
      const some = rows.slice(at, at + this.#bounds.rows - part.rows);
      at += some.length;
      const lines = some.map(({ json }) => `${json}\n`).join('');
      part.handle ??= await open(this.#source(part), 'w', 0o600);
      await part.handle.writeFile(lines);
      part.rows += some.length;
      part.bytes += Buffer.byteLength(lines);
      if (part.rows >= this.#bounds.rows || part.bytes >= this.#bounds.bytes) await this.#write(part);
    }
  }

  /** Turns the rows that a part has so far into a file. */
  async #write(part: Part): Promise<void> {
    await part.handle?.close();
    part.handle = undefined;
    const name = `${dayFolder(this.#day)}/${part.prefix}-${String(part.files).padStart(5, '0')}.parquet`;
    const target = join(this.#tempDir, `${part.prefix}.parquet`);
    await this.#engine.run(
      duck`COPY (
        SELECT ${COLUMN_NAMES}
        FROM read_json(${this.#source(part)}, format = 'newline_delimited', columns = ${COLUMN_TYPES},
          maximum_object_size = ${MAX_ROW_BYTES})
        ORDER BY admitted_at, event_id
      ) TO ${target} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE ${ROW_GROUP_ROWS})`,
    );
    try {
      const hashed = await hashFile(target);
      await this.#store.put(name, target);
      const file = await this.#readBack({ name, ...hashed });
      if (file.rows !== part.rows) throw new Error(`${name} has ${file.rows} rows instead of ${part.rows}`);
      this.#written.push(file);
    } finally {
      await rm(target, { force: true });
    }
    part.files++;
    part.rows = 0;
    part.bytes = 0;
  }

  async #readBack(
    file: Omit<ArchivedFile, 'rows' | 'firstAdmittedAt' | 'lastAdmittedAt'>,
  ): Promise<ArchivedFile> {
    const [row] = await this.#engine.rows(
      onFiles(
        this.#store,
        [file],
        (relation) => duck`
        SELECT count(*) AS rows, min(epoch_ms(admitted_at)) AS first, max(epoch_ms(admitted_at)) AS last FROM ${relation}`,
      ),
      1,
    );
    return {
      ...file,
      rows: Number(row?.rows),
      firstAdmittedAt: new Date(Number(row?.first)),
      lastAdmittedAt: new Date(Number(row?.last)),
    };
  }

  #source({ prefix }: Part): string {
    return join(this.#tempDir, `${prefix}.ndjson`);
  }
}
