import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { testRun } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { busyMinute, type Minute } from './busyDay.ts';
import { type Cluster, startCluster } from './cluster.ts';
import { DayReport } from './dayReport.ts';
import { longForm } from './longForm.ts';
import { archivedTo, type OldMonth, writeOldMonth } from './oldMonth.ts';
import { randomFrom } from './random.ts';
import { NO_OFFSET_MS } from './randomFaults.ts';
import { growth, inFigures, leaks, type Slice, warmSlices } from './soak.ts';

const MINUTE_MS = 60_000;
/** Any process is killed in these. */
const KILLS_IN_A_ROW = 3;
/** Processes live through these together, so that their memory can be compared; a warm-up comes first. */
const WARM_MINUTES = 9;
const LEAST_WARM_MINUTES = 4;
const MOST_BYTES_PER_REQUEST = 32;
/** What caches, pools and compiled code add to a process that has run for minutes. */
const MOST_BYTES = 2_000_000;
const WORKERS = 2;

it('a busy day: exact bills, a month that is archived meanwhile, no failed request without a reason, flat memory and handles', async () => {
  const { seed, endsAt, log, inLog } = longForm(process.env);
  const { cluster, oldMonth } = await startDay(seed);
  const report = new DayReport();
  const context = { cluster, random: randomFrom(seed), seed, report, log, inLog };
  const violations: string[] = [];
  let [number, requests, comparisons, hotRows] = [0, 0, 0, oldMonth.attempts];
  const pass = async (kind: Minute['kind'], slices: Slice[]) => {
    const result = await busyMinute(context, { kind, number: ++number, lengthMs: MINUTE_MS });
    const old = await oldMonth.check();
    log('archive', `${old.hotRows} of ${oldMonth.attempts} old attempts are still in Postgres`);
    violations.push(...result.violations, ...old.violations);
    requests += result.requests;
    hotRows = old.hotRows;
    slices.push({ requests, held: result.held });
    log('slice', inFigures({ requests, held: result.held }));
  };
  try {
    do {
      for (let kills = 0; kills < KILLS_IN_A_ROW && (kills === 0 || performance.now() < endsAt); kills++)
        await pass('all faults', []);
      const requestsBefore = requests;
      const slices: Slice[] = [];
      const warm = () => warmSlices(slices, requestsBefore);
      /** The memory is compared at least once, however short the time. */
      const hasTime = () =>
        performance.now() < endsAt || (comparisons === 0 && warm().length < LEAST_WARM_MINUTES);
      while (warm().length < WARM_MINUTES && hasTime()) await pass('outages', slices);
      if (warm().length < LEAST_WARM_MINUTES)
        log('memory', `not compared: ${warm().length} minutes after the warm-up`);
      else {
        comparisons++;
        violations.push(...judged(warm(), log));
      }
    } while (performance.now() < endsAt);
  } finally {
    await cluster.close();
  }
  const outcome = violations.length === 0 ? 'holds' : `${violations.length} violations`;
  for (const line of report.lines()) log('report', line);
  log('result', `seed ${seed}, ${number} minutes of faults, ${requests} requests: ${outcome}`);
  expect([violations, hotRows]).toEqual([[], 0]);
});

/** A service with a month to archive. */
async function startDay(seed: number): Promise<{ readonly cluster: Cluster; readonly oldMonth: OldMonth }> {
  const archive = archivedTo(await mkdtemp(join(testRun().folder, 'archive-')));
  const cluster = await startCluster({
    proxies: 2,
    workers: 0,
    ownPostgres: true,
    sharedSpools: true,
    clockOffsetMs: () => NO_OFFSET_MS,
    env: { controlPlane: archive, metering: archive },
  });
  try {
    const oldMonth = await writeOldMonth(cluster, seed);
    for (let worker = 0; worker < WORKERS; worker++) await cluster.addWorker();
    return { cluster, oldMonth };
  } catch (error) {
    await cluster.close();
    throw error;
  }
}

/** What was retained without need in the minutes that every process survived. */
function judged(slices: readonly Slice[], log: (kind: string, text: string) => void): readonly string[] {
  const served = (slices.at(-1)?.requests ?? 0) - (slices[0]?.requests ?? 0);
  for (const name of slices[0]?.held.keys() ?? [])
    log(
      'memory',
      `${name} grew by ${growth(slices, name).toFixed(1)} bytes a request, in ${served} requests`,
    );
  const found = leaks(slices, MOST_BYTES_PER_REQUEST + MOST_BYTES / served);
  for (const leak of found) log('WRONG', leak);
  return found;
}
