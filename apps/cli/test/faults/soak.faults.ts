import { expect, it } from 'vitest';
import { busyMinute, type Minute } from './busyDay.ts';
import { startCluster } from './cluster.ts';
import { DayReport } from './dayReport.ts';
import { longForm } from './longForm.ts';
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

it('a busy day: exact bills, no failed request without a reason, flat memory and handles', async () => {
  const { seed, endsAt, log, inLog } = longForm(process.env);
  const cluster = await startCluster({
    proxies: 2,
    workers: 2,
    ownPostgres: true,
    sharedSpools: true,
    clockOffsetMs: () => NO_OFFSET_MS,
  });
  const report = new DayReport();
  const context = { cluster, random: randomFrom(seed), seed, report, log, inLog };
  const violations: string[] = [];
  let [number, requests, comparisons] = [0, 0, 0];
  const pass = async (kind: Minute['kind'], slices: Slice[]) => {
    const result = await busyMinute(context, { kind, number: ++number, lengthMs: MINUTE_MS });
    violations.push(...result.violations);
    requests += result.requests;
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
  expect(violations).toEqual([]);
});

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
