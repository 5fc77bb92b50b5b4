import { readdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { lockFolder } from '@weighbridge/runtime';
import { ADOPTING, epochFolders, readProducer } from './orphanedEpochs.ts';
import { epochBytes } from './recoverEpoch.ts';

/** A spool's folder, as it lies on the disk. */
export interface SpoolReport {
  readonly folder: string;
  readonly producerId: string;
  readonly bytes: number;
  /** Runs of a proxy whose usage is in it. */
  readonly epochs: number;
  /** Whether a process works on it. */
  readonly isHeld: boolean;
}

/** Looks at a spool's folder and those beside it. Changes nothing; holds each for a moment, to learn whether another does. */
export async function checkSpools(dir: string): Promise<SpoolReport[]> {
  const own = resolve(dir);
  const entries = await readdir(dirname(own), { withFileTypes: true }).catch(() => []);
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(dirname(own), name));
  const found: SpoolReport[] = [];
  for (const folder of folders.sort()) {
    const producerId = await readProducer(folder);
    if (producerId === undefined) continue;
    const epochs = await epochFolders(folder);
    const sizes = await Promise.all(epochs.map((name) => epochBytes(join(folder, name))));
    const lock = await lockFolder(folder, ADOPTING);
    if ('release' in lock) await lock.release();
    found.push({
      folder,
      producerId,
      bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
      epochs: epochs.length,
      isHeld: !('release' in lock),
    });
  }
  return found;
}
