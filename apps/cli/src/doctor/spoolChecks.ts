import type { SpoolReport } from '@weighbridge/data-plane';
import { type Finding, fail, ok, warn } from './finding.ts';

/** What lies in a spool's folder and in those beside it. */
export function spoolChecks(spools: readonly SpoolReport[], dir: string, maxBytes: number): Finding[] {
  if (spools.length === 0) return [ok('spool', `there is none at ${dir} or beside it`)];
  return spools.map((spool) => finding(spool, maxBytes));
}

function finding({ folder, producerId, bytes, epochs, isHeld }: SpoolReport, maxBytes: number): Finding {
  const check = `spool ${folder}`;
  const size = bytes < 1_048_576 ? `${Math.ceil(bytes / 1_024)} KiB` : `${Math.round(bytes / 1_048_576)} MiB`;
  if (!isHeld) {
    if (epochs === 0) return ok(check, 'no process works on it, and nothing is left in it');
    return warn(
      check,
      `no process works on it, and ${size} of ${epochs === 1 ? 'a run' : `${epochs} runs`} of the producer ${producerId} are left in it`,
      `Start a data plane on it or beside it, or run \`weighbridge spool replay ${folder}\`.`,
    );
  }
  const used = bytes / maxBytes;
  const detail = `in use, ${Math.round(used * 100)} % full`;
  const advice =
    'Usage does not reach the ledger: look at NATS and metering. Full, the data plane refuses what costs money.';
  if (used > 0.9) return fail(check, detail, advice);
  return used > 0.5 ? warn(check, detail, advice) : ok(check, detail);
}
