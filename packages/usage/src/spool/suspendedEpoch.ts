import { readFile, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Names the suspended epoch, whose attempts are all settled and whose end the control plane was not told. */
const SUSPENDED_FILE = 'rested';
/** A new id after each boot (https://docs.kernel.org/admin-guide/sysctl/kernel.html#random). */
const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';

/**
 * Lets the next start continue an epoch, with its numbers and leases. This holds until the machine reboots, since its
 * records may not be on disk; it is skipped if the system has no boot id.
 */
export async function writeSuspended(dir: string, epoch: string): Promise<void> {
  const bootId = await readBootId();
  if (bootId === undefined) return;
  const file = join(dir, SUSPENDED_FILE);
  await writeFile(`${file}.new`, `${epoch}\n${bootId}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** The epoch to continue; undefined if there is none. Deletes the note first: an epoch is continued at most once. */
export async function takeSuspended(dir: string): Promise<string | undefined> {
  const file = join(dir, SUSPENDED_FILE);
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  await unlink(file);
  const [epoch, bootId] = text.split('\n');
  return bootId !== undefined && bootId === (await readBootId()) ? epoch : undefined;
}

async function readBootId(): Promise<string | undefined> {
  return (await readFile(BOOT_ID_FILE, 'utf8').catch(() => undefined))?.trim();
}
