import { type FolderLock, lockFolder } from '@weighbridge/runtime';

/**
 * Makes sure that one process at a time works on a data folder. It tells a second process where the first one listens.
 */
export async function lockInstance(dataDir: string, url: string): Promise<FolderLock> {
  const lock = await lockFolder(dataDir, url).catch((error: NodeJS.ErrnoException) => {
    throw error.code ? new Error(`Can't write to the data folder: ${error.message}`) : error;
  });
  if ('release' in lock) return lock;
  throw new Error(
    `Weighbridge is already running on ${dataDir}, at ${lock.heldBy || 'an address that it does not tell'}. Stop it first, or choose another folder by WEIGHBRIDGE_DATA_DIR.`,
  );
}
