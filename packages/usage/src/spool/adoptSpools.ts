import { rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Logger } from '@weighbridge/runtime';
import { copyKey } from './producerKeys.ts';
import {
  adoptedFolder,
  epochFolders,
  isAdopted,
  readProducer,
  subfolders,
  tryShortHold,
} from './spoolFolder.ts';

/**
 * Moves the epochs of sibling spools that no process holds into `dir`. Each sibling is held only while its epochs move, so
 * that its own process can start at any time.
 */
export async function adoptOrphanedSpools(dir: string, logger: Logger): Promise<void> {
  for (const sibling of await subfolders(dirname(dir)).catch(() => [])) {
    const folder = join(dirname(dir), sibling);
    if (folder === dir) continue;
    try {
      await adopt(folder, dir, logger);
    } catch (error) {
      logger.warn({ err: error, folder }, 'failed to adopt an orphaned spool');
    }
  }
}

async function adopt(folder: string, dir: string, logger: Logger): Promise<void> {
  const producerId = await readProducer(folder);
  // Checked before locking: most siblings are in use or empty.
  if (!producerId || (await epochFolders(folder)).length === 0) return;
  const lock = await tryShortHold(folder);
  if (!lock) return;
  try {
    for (const name of await epochFolders(folder)) {
      // One that was adopted before has its own producer's key in it.
      if (!isAdopted(name)) await copyKey(folder, join(folder, name));
      await rename(join(folder, name), join(dir, adoptedFolder(name, producerId)));
      logger.warn({ folder, epoch: name }, 'adopted an epoch of an orphaned spool');
    }
  } finally {
    await lock.release();
  }
}
