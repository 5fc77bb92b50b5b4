import type { TestRun } from '@weighbridge/testing';
import { loadLine } from '../machine.ts';
import { startOwn, startService } from '../service.ts';
import { type Absent, type Contender, otherContender, plainContender, startBareNode } from './contender.ts';
import { type Cores, giveWay } from './cores.ts';
import { checkLedgerSum, watchRecorded } from './ledgerSum.ts';
import { startNginx } from './nginx.ts';
import { startOurs } from './ours.ts';
import { type Effort, planOf } from './plan.ts';
import { startPortkey } from './portkey.ts';
import { type Cell, measureWorkload } from './rounds.ts';
import type { Workload } from './workload.ts';

export const DIRECT = 'direct';

export interface ProxyOptions extends Effort {
  readonly cores: Cores;
  /** How many keys, each with a policy, the requests of ours take in turns; ten and a hundred times as many besides. */
  readonly keys: number;
  /** Whether parts of ours are turned off, two proxies share the load, and keys grow. */
  readonly hasParts: boolean;
  /** Undefined: other products do not take part. */
  readonly others: { readonly cacheFolder: string } | undefined;
  readonly given: readonly { readonly url: string; readonly headers: Readonly<Record<string, string>> }[];
  /** Of those that there are, by name; all of them unless told. */
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
}

/**
 * What requests cost that go through ours, side by side with nothing in between, with the least that Node can do and with
 * others. Every answer is looked at, and in the end the ledger's sum has to be requests × price.
 */
export async function measureProxy(run: TestRun, options: ProxyOptions): Promise<ProxyFigures> {
  const { cores, keys, onProgress, repeats, roundMs } = options;
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const service = await startService(run, 'proxy/fastVendor');
    closing.push(() => service.close());
    // They share their core with the load generator, which has to be on time.
    giveWay(service.recorders);
    onProgress('issuing keys');
    const ours = await startOurs(run, service, options);
    for (const { process } of ours.proxies) closing.push(() => process.stop());
    const { contenders, absent } = await startOthers(run, service.vendor, options, closing);
    const loadGenerator = await startOwn(run, 'proxy/loadGenerator');
    closing.push(() => loadGenerator.process.stop());

    const recorded = await watchRecorded(service.databaseUrl);
    closing.push(() => recorded.close());
    const counted = { requests: 0 };
    const field = {
      contenders: [...contenders, ...ours.contenders],
      loadUrl: loadGenerator.url,
      settled: () => recorded.until(counted.requests),
      counted,
      onProgress,
    };
    const cells: Cell[] = [];
    const wanted = options.workloads?.map(({ name }) => name);
    for (const planned of planOf(options)) {
      if (wanted && !wanted.includes(planned.workload.name)) continue;
      const measured = await measureWorkload(field, planned, cells);
      cells.push(...measured.cells);
      absent.push(...measured.absent);
    }
    onProgress('comparing the ledger');
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
    };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

/** All but ours. */
async function startOthers(
  run: TestRun,
  vendor: { readonly url: string; readonly process: { readonly pid: number } },
  { cores, others, given }: ProxyOptions,
  closing: (() => Promise<unknown>)[],
): Promise<{ readonly contenders: Contender[]; readonly absent: Absent[] }> {
  const contenders = [plainContender(DIRECT, vendor.url, vendor.process.pid)];
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
  contenders.push(...given.map(({ url, headers }) => otherContender(url, headers)));
  return { contenders, absent };
}
