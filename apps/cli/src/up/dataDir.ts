import { access, constants, stat } from 'node:fs/promises';
import { ensureFolder } from '@weighbridge/runtime';

/** Creates the data folder if it is missing; rejects with one line if it can't be used. */
export async function openDataDir(dataDir: string): Promise<void> {
  try {
    // Postgres refuses to run as root, so root's folder must let another user pass through; the secrets in it are 0600.
    await ensureFolder(dataDir, process.getuid?.() === 0 ? 0o711 : 0o700);
    if (!(await stat(dataDir)).isDirectory()) throw new Error('it is not a folder');
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why =
      code === 'EEXIST' || code === 'ENOTDIR' ? 'it or one of its parents is not a folder' : message;
    throw new Error(
      `The data folder ${dataDir} can't be used: ${why}. Set WEIGHBRIDGE_DATA_DIR to another folder.`,
    );
  }
}
