import { copyFile, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { hashFile } from './hashFile.ts';
import {
  type ArchiveStore,
  ArchiveUnavailableError,
  assertUndamaged,
  DamagedFileError,
  type StoredFile,
} from './store.ts';

/** An archive below a folder, which may be a mounted file system. */
export function createFolderStore(folder: string): ArchiveStore {
  /** What was verified, by path, with the size and time of the file then. */
  const verified = new Map<string, string>();
  return {
    copies: false,
    localFolders: [folder],
    async put(name, path) {
      await reachable(async () => {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        const target = join(folder, name);
        await mkdir(dirname(target), { recursive: true });
        // Renamed when it is whole and on the disk, so that no reader sees a part of it.
        const part = join(dirname(target), `.${process.pid}.part`);
        await copyFile(path, part);
        await flush(part);
        await rename(part, target);
        await flush(dirname(target));
      });
    },
    async fetch(file) {
      const path = join(folder, file.name);
      const mark = await markOf(path, file);
      if (verified.get(path) !== mark) {
        assertUndamaged(file, await reachable(() => hashFile(path)));
        verified.set(path, mark);
      }
      return { path, release: () => {} };
    },
    async list(prefix) {
      return await reachable(async () => {
        const names = await walk(folder);
        return names.filter((name) => name.startsWith(prefix)).sort();
      });
    },
    async remove(name) {
      await reachable(() => rm(join(folder, name), { force: true }));
    },
    async close() {},
  };
}

async function markOf(path: string, file: StoredFile): Promise<string> {
  const found = await reachable(() => statOrMissing(path));
  if (!found) throw await whyMissing(path, file.name);
  assertUndamaged(file, { bytes: found.size });
  return `${file.sha256}/${found.size}/${found.mtimeMs}/${found.ino}`;
}

/** A volume that is not mounted is no damage. */
async function whyMissing(path: string, name: string): Promise<Error> {
  const folder = path.slice(0, -name.length);
  if (await reachable(() => statOrMissing(folder))) return new DamagedFileError(name, 'is missing');
  return new ArchiveUnavailableError('the folder of the archive does not exist');
}

async function statOrMissing(path: string) {
  return await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
}

async function walk(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    },
  );
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).split(sep).join('/'));
}

async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function reachable<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ArchiveUnavailableError(
      `the folder of the archive is not usable (${code ?? 'unknown error'})`,
      {
        cause: error,
      },
    );
  }
}
