import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type FolderLock, lockFolder } from '@weighbridge/runtime';

// A spool's folder: `producer` names its producer and `producer.key` is its key, `lock` names the process that holds it, and each
// epoch has a folder.

/** The lock text of a process that holds a folder briefly, to move or count its epochs. */
const SHORT_HOLD = 'adopting';
const SHORT_HOLD_TIMEOUT_MS = 5_000;
const POLL_MS = 50;

export const PRODUCER_FILE = 'producer';
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const PRODUCER_ID = new RegExp(`^${UUID}$`);
/** `<epoch>`, or `<epoch>@<producer>` if it was adopted from another spool. */
const EPOCH_FOLDER = new RegExp(`^(${UUID})(?:@(${UUID}))?$`);

/** Waits for another process's short hold to end. Rejects if the folder stays in use. */
export async function lockSpool(dir: string): Promise<FolderLock> {
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    const lock = await lockFolder(dir, '');
    if ('release' in lock) return lock;
    if (lock.heldBy !== SHORT_HOLD || waitedMs >= SHORT_HOLD_TIMEOUT_MS) {
      throw new Error(
        `Another process uses the spool in ${dir}. Stop it, or set SPOOL_DIR to a separate folder for each process.`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** Undefined if another process holds the folder. */
export async function tryShortHold(folder: string): Promise<FolderLock | undefined> {
  const lock = await lockFolder(folder, SHORT_HOLD);
  return 'release' in lock ? lock : undefined;
}

/** The spool's producer id; undefined if the folder is not a spool. */
export async function readProducer(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, PRODUCER_FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return '';
    throw error;
  });
  const producerId = text.trim();
  return PRODUCER_ID.test(producerId) ? producerId : undefined;
}

/** The names of the epochs' folders, sorted. */
export async function epochFolders(dir: string): Promise<string[]> {
  return (await subfolders(dir)).filter((name) => EPOCH_FOLDER.test(name)).sort();
}

/** The producer is undefined if it is the spool's own. */
export function parseEpochFolder(name: string): {
  readonly epoch: string;
  readonly producerId: string | undefined;
} {
  const [, epoch = '', producerId] = EPOCH_FOLDER.exec(name) ?? [];
  return { epoch, producerId };
}

export function adoptedFolder(name: string, producerId: string): string {
  return isAdopted(name) ? name : `${name}@${producerId}`;
}

export function isAdopted(name: string): boolean {
  return name.includes('@');
}

/** The size of an epoch's files. */
export async function epochBytes(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await stat(join(folder, name))).size;
  return bytes;
}

export async function subfolders(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
