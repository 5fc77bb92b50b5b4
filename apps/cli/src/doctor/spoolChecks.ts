import { access, constants, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { SpoolReport } from '@weighbridge/data-plane';
import { type Finding, fail, ok, warn, why } from './finding.ts';

/** Checks a spool's folder and those beside it. */
export function spoolChecks(spools: readonly SpoolReport[], dir: string, maxBytes: number): Finding[] {
  if (spools.length === 0) return [ok('spool', `no spool at ${dir} or beside it`)];
  return spools.map((spool) => finding(spool, maxBytes));
}

/** Checks the disk of a spool: what a proxy finds out when it starts, or when the disk is full. */
export async function spoolDiskCheck(dir: string, maxBytes: number): Promise<Finding> {
  const check = 'disk of the spool';
  try {
    const folder = await existingFolder(resolve(dir));
    await access(folder, constants.W_OK | constants.X_OK);
    const { bavail, bsize, type } = await statfs(folder);
    const free = bavail * bsize;
    if (type === TMPFS) {
      return warn(
        check,
        `${folder} is memory (tmpfs): usage that was not sent is lost with the pod`,
        'Set SPOOL_DIR to a folder on a persistent volume.',
      );
    }
    if (free >= maxBytes) return ok(check, `${sizeOf(free)} are free`);
    const advice =
      'Give it a larger disk, or a smaller SPOOL_MAX_BYTES: a full disk refuses requests that cost money.';
    return warn(check, `${sizeOf(free)} are free, and SPOOL_MAX_BYTES allows ${sizeOf(maxBytes)}`, advice);
  } catch (error) {
    return fail(
      check,
      why(error),
      'Set SPOOL_DIR to a folder that the user of the data plane may write to (in Kubernetes: fsGroup).',
    );
  }
}

/** https://man7.org/linux/man-pages/man2/statfs.2.html */
const TMPFS = 0x01021994;

/** The folder, or the nearest one above it: a data plane creates what is missing. */
async function existingFolder(folder: string): Promise<string> {
  const error = await access(folder).then(
    () => undefined,
    (caught: NodeJS.ErrnoException) => caught,
  );
  if (!error) return folder;
  if (error.code !== 'ENOENT' || dirname(folder) === folder) throw error;
  return await existingFolder(dirname(folder));
}

function sizeOf(bytes: number): string {
  const mib = bytes / 1_048_576;
  return mib < 10_240 ? `${Math.round(mib)} MiB` : `${Math.round(mib / 1_024)} GiB`;
}

function finding({ folder, producerId, bytes, epochs, isHeld }: SpoolReport, maxBytes: number): Finding {
  const check = `spool ${folder}`;
  const size = bytes < 1_048_576 ? `${Math.ceil(bytes / 1_024)} KiB` : `${Math.round(bytes / 1_048_576)} MiB`;
  if (!isHeld) {
    if (epochs === 0) return ok(check, 'empty, and no process uses it');
    return warn(
      check,
      `orphaned: no process uses it, and it holds ${size} from ${epochs === 1 ? 'one run' : `${epochs} runs`} of the producer ${producerId}`,
      `Start a data plane on it or beside it, or run \`weighbridge spool replay ${folder}\`.`,
    );
  }
  const used = bytes / maxBytes;
  const detail = `in use, ${Math.round(used * 100)} % full`;
  const advice =
    'Usage does not reach the ledger: check NATS and metering. Once the spool is full, the data plane refuses requests that cost money.';
  if (used > 0.9) return fail(check, detail, advice);
  return used > 0.5 ? warn(check, detail, advice) : ok(check, detail);
}
