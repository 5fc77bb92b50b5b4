import { type FolderLock, lockFolder } from '@weighbridge/runtime';

/** Lets only one process use a data folder at a time. The error of a second process names the address of the first. */
export async function lockInstance(dataDir: string, url: string): Promise<FolderLock> {
  const lock = await lockFolder(dataDir, url).catch((error: NodeJS.ErrnoException) => {
    throw error.code ? new Error(`Can't write to the data folder: ${error.message}`) : error;
  });
  if ('release' in lock) return lock;
  throw alreadyRunning(dataDir, lock.heldBy);
}

/** As `opening`, which opens a port; if it fails, and another process uses the data folder, the error names that one instead. */
export async function orAlreadyRunning<T>(opening: Promise<T>, dataDir: string): Promise<T> {
  return await opening.catch(async (error) => {
    // The folder may not exist yet.
    const lock = await lockFolder(dataDir, '').catch(() => undefined);
    if (lock && 'heldBy' in lock) throw alreadyRunning(dataDir, lock.heldBy);
    await lock?.release();
    throw error;
  });
}

function alreadyRunning(dataDir: string, address: string): Error {
  return new Error(
    `Weighbridge is already running on ${dataDir}, at ${address || 'an unknown address'}. Stop it first, or set WEIGHBRIDGE_DATA_DIR to another folder.`,
  );
}
