import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { LocalFile, StoredFile } from './store.ts';

interface Entry {
  readonly path: string;
  readonly bytes: number;
  readonly loaded: Promise<void>;
  users: number;
}

/**
 * Files of a bucket on this machine, by their hashes. Of those that no one uses, the longest unused go once all have more bytes than they
 * may; those in use stay, so a caller bounds what it uses at once.
 */
export class FileCache {
  readonly #folder: string;
  readonly #maxBytes: number;
  /** The longest unused first. */
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;

  constructor(folder: string, maxBytes: number) {
    this.#folder = folder;
    this.#maxBytes = maxBytes;
  }

  /** Two callers that want the same file at once load it once. */
  async use(file: StoredFile, load: (path: string) => Promise<void>): Promise<LocalFile> {
    const entry = this.#entries.get(file.sha256) ?? this.#begin(file, load);
    entry.users++;
    let isReleased = false;
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      entry.users--;
    };
    try {
      await entry.loaded;
    } catch (error) {
      release();
      throw error;
    }
    if (this.#entries.delete(file.sha256)) this.#entries.set(file.sha256, entry);
    return { path: entry.path, release };
  }

  #begin(file: StoredFile, load: (path: string) => Promise<void>): Entry {
    const path = join(this.#folder, file.sha256);
    const loaded = this.#load(file, path, load);
    const entry: Entry = { path, bytes: file.bytes, loaded, users: 0 };
    this.#entries.set(file.sha256, entry);
    this.#bytes += file.bytes;
    loaded.catch(() => {
      this.#entries.delete(file.sha256);
      this.#bytes -= file.bytes;
    });
    return entry;
  }

  async #load(file: StoredFile, path: string, load: (path: string) => Promise<void>): Promise<void> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await this.#makeRoom(file.sha256);
    try {
      await load(path);
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  }

  async #makeRoom(besides: string): Promise<void> {
    for (const [key, { path, bytes, users }] of [...this.#entries]) {
      if (this.#bytes <= this.#maxBytes) return;
      if (users > 0 || key === besides) continue;
      this.#entries.delete(key);
      this.#bytes -= bytes;
      await rm(path, { force: true });
    }
  }
}
