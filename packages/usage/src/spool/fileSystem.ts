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
