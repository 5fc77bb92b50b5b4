import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Creates a folder and its missing parents. Node's own `recursive` never returns on a file system such as /proc, which
 * reports an existing folder as missing.
 */
export async function ensureFolder(path: string, mode?: number): Promise<void> {
  if (await tryCreate(path, mode)) return;
  await ensureFolder(dirname(path), mode);
  await mkdir(path, mode).catch(ignoreExisting);
}

/** False if its parent is missing. */
async function tryCreate(path: string, mode?: number): Promise<boolean> {
  try {
    await mkdir(path, mode);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' && dirname(path) !== path) return false;
    ignoreExisting(error);
    return true;
  }
}

function ignoreExisting(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
