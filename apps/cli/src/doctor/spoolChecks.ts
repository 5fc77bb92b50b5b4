import type { SpoolReport } from '@weighbridge/data-plane';
import { type Finding, fail, ok, warn } from './finding.ts';

/** Checks a spool's folder and those beside it. */
export function spoolChecks(spools: readonly SpoolReport[], dir: string, maxBytes: number): Finding[] {
  if (spools.length === 0) return [ok('spool', `no spool at ${dir} or beside it`)];
  return spools.map((spool) => finding(spool, maxBytes));
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
