import { readdir } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { epochBytes, epochFolders, readProducer, tryShortHold } from './spoolFolder.ts';

/** A spool's folder as found on disk. */
export interface SpoolReport {
  readonly folder: string;
  readonly producerId: string;
  readonly bytes: number;
  /** The number of epochs with usage in it. */
  readonly epochs: number;
  /** A process uses it. */
  readonly isHeld: boolean;
}

/**
 * Reports on the spool in `dir` and those beside it. Changes nothing, but locks each for a moment to learn whether a
 * process holds it.
 */
export async function checkSpools(dir: string): Promise<SpoolReport[]> {
  const parent = dirname(resolve(dir));
  const entries = await readdir(parent, { withFileTypes: true }).catch(() => []);
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(parent, name));
  const reports: SpoolReport[] = [];
  for (const folder of folders.sort()) {
    const producerId = await readProducer(folder);
    if (producerId === undefined) continue;
    const epochs = await epochFolders(folder);
    const sizes = await Promise.all(epochs.map((name) => epochBytes(join(folder, name))));
    const lock = await tryShortHold(folder);
    await lock?.release();
    reports.push({
      folder,
      producerId,
      bytes: sizes.reduce((sum, bytes) => sum + bytes, 0),
      epochs: epochs.length,
      isHeld: lock === undefined,
    });
  }
  return reports;
}
