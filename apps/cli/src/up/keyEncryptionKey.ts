import { randomBytes } from 'node:crypto';
import { link, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const KEK_BYTES = 32;

/**
 * The key-encryption key of a data folder, in base64: created at the first start, in a file that only its owner can read,
 * outside the database, so that a dump of the database reveals no credential.
 */
export async function dataDirKeyEncryptionKey(dataDir: string): Promise<string> {
  const path = join(dataDir, 'key-encryption-key');
  return (await read(path)) ?? (await create(path));
}

async function read(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new Error(
      `Can't read ${path}, which is needed to open the credentials: ${(error as Error).message}`,
    );
  }
}

async function create(path: string): Promise<string> {
  const key = randomBytes(KEK_BYTES).toString('base64');
  const unfinished = `${path}.new`;
  await rm(unfinished, { force: true });
  await writeFile(unfinished, `${key}\n`, { mode: 0o600, flag: 'wx', flush: true });
  // `link` never replaces an existing key, under which credentials may be sealed.
  await link(unfinished, path);
  await rm(unfinished);
  return key;
}
