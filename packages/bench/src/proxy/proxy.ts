import type { TestRun } from '@weighbridge/testing';
import { loadLine } from '../shared/machine.ts';
import { startBenchProgram, startService } from '../shared/service.ts';
import {
  type Absent,
  type Contender,
  onShippedNode,
  otherContender,
  plainContender,
  startBareNode,
} from './contender.ts';
import { type Cores, lowerPriority } from './cores.ts';
import { checkLedgerSum, watchRecorded } from './ledgerSum.ts';
import { startNginx } from './nginx.ts';
import { type Effort, planWorkloads } from './plan.ts';
import { startPortkey } from './portkey.ts';
import { type Cell, measureWorkload } from './rounds.ts';
import { startWeighbridge } from './weighbridge.ts';
import type { Workload } from './workload.ts';

export const DIRECT = 'direct';

export interface ProxyOptions extends Effort {
  readonly cores: Cores;
  /** Keys, each with a policy, that requests to Weighbridge take in turns; a workload also has 10 and 100 times as many. */
  readonly keys: number;
  /** Whether to measure Weighbridge with parts off, with two processes, and with more keys too. */
  readonly hasParts: boolean;
  /** Other products; undefined: none take part. */
  readonly others: { readonly cacheFolder: string } | undefined;
  readonly extraContenders: readonly {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
  }[];
  /** Workloads to measure, by name. Default: all. */
  readonly workloads?: readonly Workload[];
  readonly onProgress: (text: string) => void;
}

export interface ProxyFigures {
  readonly cells: readonly Cell[];
  readonly absent: readonly Absent[];
  readonly requests: number;
  readonly nanoUsd: string;
  readonly repeats: number;
  readonly roundMs: number;
  readonly pinned: boolean;
  readonly pairIsApart: boolean;
  readonly keys: number;
  readonly load: string;
  /** What each contender ran on, such as `Node v24.9.0`, if it is known. */
  readonly runsOn: Readonly<Record<string, string>>;
}

/**
 * Measures the cost of a request through Weighbridge, side by side with no proxy, a minimal proxy in Node, and others.
 * Every response is checked, and in the end the ledger's sum must be requests × price.
 */
export async function measureProxy(run: TestRun, options: ProxyOptions): Promise<ProxyFigures> {
  const { cores, keys, onProgress, repeats, roundMs } = options;
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const service = await startService(run, 'proxy/fastVendor');
    closing.push(() => service.close());
    // They share cores with the load generator, which must be on time.
    lowerPriority(service.recorders);
    onProgress('issuing keys');
    const ours = await startWeighbridge(run, service, options);
    for (const { process } of ours.proxies) closing.push(() => process.stop());
    const { contenders, absent } = await startOthers(run, service.vendor, options, closing);
    const loadGenerator = await startBenchProgram(run, 'proxy/loadGenerator');
    closing.push(() => loadGenerator.process.stop());

    const recorded = await watchRecorded(service.databaseUrl);
    closing.push(() => recorded.close());
    const counted = { requests: 0 };
    const setup = {
      contenders: [...contenders, ...ours.contenders],
      loadUrl: loadGenerator.url,
      settled: () => recorded.until(counted.requests),
      counted,
      onProgress,
    };
    const cells: Cell[] = [];
    const wanted = options.workloads?.map(({ name }) => name);
    for (const planned of planWorkloads(options)) {
      if (wanted && !wanted.includes(planned.workload.name)) continue;
      const measured = await measureWorkload(setup, planned, cells);
      cells.push(...measured.cells);
      absent.push(...measured.absent);
    }
    onProgress('checking the ledger');
    const { nanoUsd } = await checkLedgerSum(service.databaseUrl, counted.requests);
    return {
      cells,
      absent,
      requests: counted.requests,
      nanoUsd: String(nanoUsd),
      repeats,
      roundMs,
      pinned: cores.proxy !== undefined,
      pairIsApart: cores.pairIsApart,
      keys,
      load: loadLine(),
      runsOn: Object.fromEntries(
        setup.contenders.flatMap(({ name, runsOn }) => (runsOn === undefined ? [] : [[name, runsOn]])),
      ),
    };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** Starts all contenders but Weighbridge. */
async function startOthers(
  run: TestRun,
  vendor: { readonly url: string; readonly process: { readonly pid: number } },
  { cores, others, extraContenders }: ProxyOptions,
  closing: (() => Promise<unknown>)[],
): Promise<{ readonly contenders: Contender[]; readonly absent: Absent[] }> {
  const contenders = [plainContender(DIRECT, vendor.url, onShippedNode(vendor.process.pid))];
  const absent: Absent[] = [];
  const bare = await startBareNode(run, vendor.url, cores.proxy);
  closing.push(() => bare.process.stop());
  contenders.push(bare.contender);
  if (others) {
    const options = { ...others, core: cores.proxy };
    for (const start of [startNginx, startPortkey]) {
      const started = await start(run, vendor.url, options);
      if ('reason' in started) absent.push(started);
      else {
        closing.push(() => started.process.stop());
        contenders.push(started.contender);
      }
    }
  }
  contenders.push(...extraContenders.map(({ url, headers }) => otherContender(url, headers)));
  return { contenders, absent };
}
