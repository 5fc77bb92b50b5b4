import { readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Names the epoch that came to rest: all that it began was settled, and nobody was told that it ended. */
const RESTED_FILE = 'rested';
/** Another one after each start of the machine (https://docs.kernel.org/admin-guide/sysctl/kernel.html#random). */
const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';

/**
 * Notes that the next start may go on with an epoch: its numbers, and what was leased to it. Only until the machine is
 * started again, since what was written may not have reached the disk; and nowhere where that can't be told.
 */
export async function writeSuspended(dir: string, epoch: string): Promise<void> {
  const bootId = await readBootId();
  if (bootId === undefined) return;
  const file = join(dir, RESTED_FILE);
  await writeFile(`${file}.new`, `${epoch}\n${bootId}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** The epoch to go on with; undefined where there is none. Forgets it first: nobody goes on with it twice. */
export async function takeSuspended(dir: string): Promise<string | undefined> {
  const file = join(dir, RESTED_FILE);
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  await unlink(file);
  const [epoch, bootId] = text.split('\n');
  return bootId !== undefined && bootId === (await readBootId()) ? epoch : undefined;
}

async function readBootId(): Promise<string | undefined> {
  return (await readFile(BOOT_ID_FILE, 'utf8').catch(() => undefined))?.trim();
}
