import { type FolderLock, lockFolder } from '@weighbridge/runtime';

/** Lets only one process use a data folder at a time. The error of a second process names the address of the first. */
export async function lockInstance(dataDir: string, url: string): Promise<FolderLock> {
  const lock = await lockFolder(dataDir, url).catch((error: NodeJS.ErrnoException) => {
    throw error.code ? new Error(`Can't write to the data folder: ${error.message}`) : error;
  });
  if ('release' in lock) return lock;
  throw new Error(
    `Weighbridge is already running on ${dataDir}, at ${lock.heldBy || 'an unknown address'}. Stop it first, or set WEIGHBRIDGE_DATA_DIR to another folder.`,
  );
}
