import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';

/**
 * Makes a folder and those that it stands in, where they are missing. Node's own `recursive` never returns where a file
 * system such as /proc says of a folder that is there that there is none.
 */
export async function ensureFolder(path: string, mode?: number): Promise<void> {
  if (await tryMake(path, mode)) return;
  await ensureFolder(dirname(path), mode);
  await mkdir(path, mode).catch(unlessThere);
}

/** False where what it should stand in is missing. */
async function tryMake(path: string, mode?: number): Promise<boolean> {
  try {
    await mkdir(path, mode);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' && dirname(path) !== path) return false;
    unlessThere(error);
    return true;
  }
}

function unlessThere(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error;
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
