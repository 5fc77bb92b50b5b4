import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestRun } from '@weighbridge/testing';
import { formatTable } from '../shared/figures.ts';
import { startBenchProgram, startService } from '../shared/service.ts';
import type { Cores } from './cores.ts';
import { type CpuProfile, type SelfTimes, selfTimes } from './cpuProfile.ts';
import { checkLedgerSum } from './ledgerSum.ts';
import { LARGE, PLAIN, STREAMED } from './plan.ts';
import { load } from './rounds.ts';
import { startWeighbridge } from './weighbridge.ts';

const CONNECTIONS = 32;
const FUNCTIONS = 30;
const MODULES = 12;
const OURS = 30;

export interface ProfileOptions {
  /** Folder for the profiles, which browsers' developer tools and editors open. */
  readonly folder: string;
  readonly cores: Cores;
  readonly ms: number;
  readonly onProgress: (text: string) => void;
}

export interface WorkloadProfile {
  readonly workload: string;
  readonly file: string;
  readonly requests: number;
  readonly times: SelfTimes;
}

/** Takes CPU profiles of Weighbridge under load, one process per workload; the time before the load does not count. */
export async function profileProxy(
  run: TestRun,
  { folder, cores, ms, onProgress }: ProfileOptions,
): Promise<WorkloadProfile[]> {
  const profiles: WorkloadProfile[] = [];
  const service = await startService(run, 'proxy/fastVendor');
  let sent = 0;
  try {
    const loadGenerator = await startBenchProgram(run, 'proxy/loadGenerator');
    for (const workload of [PLAIN, STREAMED, LARGE]) {
      onProgress(`profiling: ${workload.name}`);
      const into = join(folder, workload.name.replaceAll(' ', '-'));
      await mkdir(into, { recursive: true });
      const before = new Set(await readdir(into));
      const startedAt = performance.now();
      const { contenders, proxies } = await startWeighbridge(run, service, {
        cores,
        keys: 1,
        hasParts: false,
        nodeArgs: ['--cpu-prof', '--cpu-prof-interval', '250', `--cpu-prof-dir=${into}`],
      });
      const [ours] = contenders;
      if (!ours) throw new Error('no proxy was started');
      const order = { ...ours, workload, connections: CONNECTIONS };
      const warm = await load(loadGenerator.url, { ...order, ms: ms / 4 });
      const skipMs = performance.now() - startedAt;
      const measured = await load(loadGenerator.url, { ...order, ms });
      sent += warm.requests + measured.requests;
      for (const { process } of proxies) await process.stop();
      const [name] = (await readdir(into)).filter((file) => !before.has(file));
      if (!name) throw new Error(`the proxy wrote no profile to ${into}`);
      const file = join(into, name);
      const profile = JSON.parse(await readFile(file, 'utf8')) as CpuProfile;
      const times = selfTimes(profile, skipMs * 1_000);
      profiles.push({ workload: workload.name, file, requests: measured.requests, times });
    }
    await loadGenerator.process.stop();
    await checkLedgerSum(service.databaseUrl, sent);
    return profiles;
  } finally {
    await service.close();
  }
}

export function describeProfiles(profiles: readonly WorkloadProfile[]): string {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`;
  return profiles
    .map(({ workload, file, requests, times }) => {
      const rows = (of: SelfTimes['functions'], count: number) =>
        of
          .slice(0, count)
          .map(({ name, micros, share }) => [percent(share), (micros / requests).toFixed(2), name]);
      return [
        `${workload}: ${(times.busyMicros / requests).toFixed(1)} µs per request while profiled; ${file}`,
        formatTable([['self', 'µs/request', 'module'], ...rows(times.modules, MODULES)]),
        '',
        formatTable([['self', 'µs/request', 'function'], ...rows(times.functions, FUNCTIONS)]),
        '',
        formatTable([['all', 'µs/request', 'Weighbridge, with callees'], ...rows(times.ours, OURS)]),
      ].join('\n');
    })
    .join('\n\n');
}
