import fs from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';

/** The file operations of the spool; tests replace it to make each one fail. */
export interface FileSystem {
  makeFolder(path: string): void;
  /** Opens for reading and writing; empties the file if it exists. */
  create(path: string): number;
  /** Returns how many bytes were written, as `write(2)` does. */
  write(file: number, bytes: Buffer, from: number, position: number): number;
  read(file: number, into: Buffer, position: number): number;
  truncate(file: number, bytes: number): void;
  close(file: number): void;
  sync(file: number): Promise<void>;
  syncFolder(path: string): Promise<void>;
  openToRead(path: string): Promise<FileHandle>;
  remove(path: string): void;
  removeFolder(path: string): Promise<void>;
}

export const nodeFileSystem: FileSystem = {
  makeFolder: (path) => {
    fs.mkdirSync(path, { recursive: true, mode: 0o700 });
  },
  create: (path) => fs.openSync(path, 'w+', 0o600),
  write: (file, bytes, from, position) => fs.writeSync(file, bytes, from, bytes.length - from, position),
  read: (file, into, position) => fs.readSync(file, into, 0, into.length, position),
  truncate: (file, bytes) => fs.ftruncateSync(file, bytes),
  close: (file) => fs.closeSync(file),
  sync: (file) =>
    new Promise((resolve, reject) => {
      fs.fdatasync(file, (error) => (error ? reject(error) : resolve()));
    }),
  async syncFolder(path) {
    const folder = await open(path, 'r');
    await folder.sync().finally(() => folder.close());
  },
  openToRead: (path) => open(path, 'r'),
  remove: (path) => fs.rmSync(path, { force: true }),
  removeFolder: (path) => rm(path, { recursive: true, force: true }),
};

const BUFFER_BYTES = 64 * 1024;

/** Joins records for one write, in a buffer that is reused as long as they fit. */
export class RecordBuffer {
  #buffer: Buffer | undefined;

  /** `bytes` is the records' total length. The result is valid until the next call. */
  join(records: readonly Buffer[], bytes: number): Buffer {
    const [first, ...others] = records;
    if (first && others.length === 0) return first;
    if (bytes > BUFFER_BYTES) return Buffer.concat(records);
    this.#buffer ??= Buffer.allocUnsafeSlow(BUFFER_BYTES);
    let at = 0;
    for (const record of records) at += record.copy(this.#buffer, at);
    return this.#buffer.subarray(0, at);
  }
}

export function totalBytes(records: readonly Buffer[]): number {
  let bytes = 0;
  for (const { length } of records) bytes += length;
  return bytes;
}

export function writeFully(files: FileSystem, file: number, bytes: Buffer, position: number): void {
  for (let done = 0; done < bytes.length; ) {
    const written = files.write(file, bytes, done, position + done);
    if (written <= 0) throw new Error('the disk accepted no bytes of a write');
    done += written;
  }
}
