import type { TestRun } from '@weighbridge/testing';
import { createNodeObserver, type NodeObserver } from '../observe/nodeFigures.ts';
import { loadLine } from '../shared/machine.ts';
import { residentMiBOfTree } from '../shared/residentMemory.ts';
import { canRunInRealTime, lowerPriority } from '../shared/scheduling.ts';
import { type Service, startBenchProgram, startService } from '../shared/service.ts';
import { chosen } from './choice.ts';
import {
  type Absent,
  BARE,
  type Contender,
  DIRECT,
  type Other,
  onShippedNode,
  otherContender,
  plainContender,
  type RunningGateway,
  startBareNode,
} from './contender.ts';
import type { Cores } from './cores.ts';
import { checkLedgerSum, watchRecorded } from './ledgerSum.ts';
import { type Effort, LANES, planWorkloads, warmUpWorkload } from './plan.ts';
import { type Cell, measureWorkload, type Setup, warmUpAll } from './rounds.ts';
import { Turns } from './turns.ts';
import { IN_PAIR, OURS, startWeighbridge } from './weighbridge.ts';

/** The vendor and the load generator are never late because of what else runs on their cores. */
const VENDOR_PRIORITY = 10;
const LOAD_PRIORITY = 20;

export interface ProxyOptions extends Effort {
  readonly cores: Cores;
  /** Keys, each with a policy, that requests to Weighbridge take in turns; a workload also has 10 and 100 times as many. */
  readonly keys: number;
  /** Whether to measure Weighbridge with parts off, with two processes, and with more keys too. */
  readonly hasParts: boolean;
  /** Other products; undefined: none take part. */
  readonly others: { readonly cacheFolder: string; readonly list: readonly Other[] } | undefined;
  readonly extraContenders: readonly RunningGateway[];
  /** Lanes to measure, by the start of their names. Undefined: all. */
  readonly lanes: readonly string[] | undefined;
  /** Contenders to measure, likewise; those of `extraContenders` always take part. */
  readonly contenders: readonly string[] | undefined;
  /** Whether recorders run only when nothing else does. If not, they have a low priority. */
  readonly recordsWhenIdle: boolean;
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
  /** Whether load and vendor had a real-time priority. */
  readonly isRealTime: boolean;
  readonly pairIsApart: boolean;
  readonly keys: number;
  readonly load: string;
  /** What each contender ran on, such as `Node v24.9.0`, if it is known. */
  readonly runsOn: Readonly<Record<string, string>>;
  /** The version and settings of each other product. */
  readonly howRun: Readonly<Record<string, string>>;
  /** The contenders with keys, limits and budgets on. */
  readonly governed: readonly string[];
  /** Resident MiB of each contender's processes. */
  readonly memory: readonly MemoryOfContender[];
}

interface MemoryOfContender {
  readonly contender: string;
  /** Before its first request. */
  readonly idleMiB: number;
  /** After the last lane. */
  readonly loadedMiB: number;
}

/**
 * Measures the cost of a request through Weighbridge, side by side with no proxy, a minimal proxy in Node, and others.
 * Every response is checked, and in the end the ledger's sum must be requests × price.
 */
export async function measureProxy(run: TestRun, options: ProxyOptions): Promise<ProxyFigures> {
  const { cores, keys, onProgress, repeats, roundMs } = options;
  const isRealTime = cores.rest !== undefined && canRunInRealTime();
  const priority = (level: number) => (cores.rest === undefined ? undefined : level);
  const lanes = chosen(LANES, options.lanes ?? LANES);
  const closing: (() => Promise<unknown>)[] = [];
  try {
    const observer = await createNodeObserver();
    closing.push(() => observer.close());
    const service = await startService(run, 'proxy/fastVendor', {
      vendorPriority: priority(VENDOR_PRIORITY),
    });
    closing.push(() => service.close());
    // They share cores with the load generator, which must be on time.
    lowerPriority(service.recorders, { onlyWhenIdle: options.recordsWhenIdle && isRealTime });
    const { contenders, absent } = await startContenders(run, service, { ...options, observer }, closing);
    const loadGenerator = await startBenchProgram(run, 'proxy/loadGenerator', {
      realTimePriority: priority(LOAD_PRIORITY),
    });
    closing.push(() => loadGenerator.process.stop());

    const recorded = await watchRecorded(service.databaseUrl);
    closing.push(() => recorded.close());
    const counted = { requests: 0 };
    const settled = () => recorded.until(counted.requests);
    const idle = residentOf(contenders);
    const turns = new Turns(contenders);
    closing.push(async () => turns.end());
    const setup = { contenders, turns, loadUrl: loadGenerator.url, settled, counted, observer, onProgress };
    const cells = await measureLanes(setup, options, lanes, absent);
    onProgress('checking the ledger');
    const { nanoUsd } = await checkLedgerSum(service.databaseUrl, counted.requests);
    const loaded = residentOf(contenders);
    return {
      cells,
      absent,
      requests: counted.requests,
      nanoUsd: String(nanoUsd),
      repeats,
      roundMs,
      pinned: cores.proxy !== undefined,
      isRealTime,
      pairIsApart: cores.pairIsApart,
      keys,
      load: loadLine(),
      runsOn: factOf(contenders, ({ runsOn }) => runsOn),
      howRun: factOf(contenders, ({ howRun }) => howRun),
      governed: contenders.filter(({ isGoverned }) => isGoverned).map(({ name }) => name),
      memory: [...idle].map(([contender, idleMiB]) => {
        return { contender, idleMiB, loadedMiB: loaded.get(contender) ?? Number.NaN };
      }),
    };
  } finally {
    for (const close of closing.reverse()) await close();
  }
}

function factOf(
  contenders: readonly Contender[],
  fact: (contender: Contender) => string | undefined,
): Record<string, string> {
  return Object.fromEntries(
    contenders.flatMap((contender) => {
      const text = fact(contender);
      return text === undefined ? [] : [[contender.name, text]];
    }),
  );
}

async function measureLanes(
  setup: Setup,
  effort: Effort,
  lanes: readonly string[],
  absent: Absent[],
): Promise<Cell[]> {
  const cells: Cell[] = [];
  const failed = await warmUpAll(setup, warmUpWorkload(effort));
  absent.push(...failed);
  const contenders = setup.contenders.filter(({ name }) => !failed.some((one) => one.name === name));
  for (const planned of planWorkloads(effort)) {
    if (!lanes.includes(planned.lane)) continue;
    const measured = await measureWorkload({ ...setup, contenders }, planned, cells);
    cells.push(...measured.cells);
    absent.push(...measured.absent);
  }
  return cells;
}

/** By contender, once per process. */
function residentOf(contenders: readonly Contender[]): Map<string, number> {
  const seen = new Set<number>();
  return new Map(
    contenders.flatMap(({ name, pid }) => {
      if (pid === undefined || name === DIRECT || seen.has(pid)) return [];
      seen.add(pid);
      return [[name, residentMiBOfTree(pid)] as const];
    }),
  );
}

interface Started {
  readonly contenders: Contender[];
  readonly absent: Absent[];
}

async function startContenders(
  run: TestRun,
  service: Service,
  options: ProxyOptions & { readonly observer: NodeObserver },
  closing: (() => Promise<unknown>)[],
): Promise<Started> {
  const { cores, others, extraContenders, observer } = options;
  const { vendor } = service;
  const list = others?.list ?? [];
  const names = [DIRECT, BARE, ...list.map(({ name }) => name), OURS, IN_PAIR];
  const wanted = new Set(chosen(names, options.contenders ?? names));
  const contenders: Contender[] = [];
  const absent: Absent[] = [];
  if (wanted.has(DIRECT)) {
    contenders.push(plainContender(DIRECT, vendor.url, onShippedNode(vendor.process.pid)));
  }
  if (wanted.has(BARE)) {
    const bare = await startBareNode(run, vendor.url, { core: cores.proxy, nodeArgs: observer.nodeArgs });
    closing.push(() => bare.process.stop());
    contenders.push(bare.contender);
  }
  for (const other of list) {
    if (!others || !wanted.has(other.name)) continue;
    options.onProgress(`starting ${other.name}`);
    const started = await other.start(run, vendor.url, {
      cacheFolder: others.cacheFolder,
      core: cores.proxy,
      nodeArgs: observer.nodeArgs,
    });
    if ('reason' in started) absent.push(started);
    else {
      closing.push(() => started.process.stop());
      contenders.push(started.contender);
    }
  }
  contenders.push(...extraContenders.map(otherContender));
  const hasPair = options.hasParts || (options.contenders !== undefined && wanted.has(IN_PAIR));
  if (wanted.has(OURS) || hasPair) {
    options.onProgress('issuing keys');
    const observed = { ...options, hasPair, nodeArgs: observer.nodeArgs, isObserved: true };
    const ours = await startWeighbridge(run, service, observed);
    for (const { process } of ours.proxies) closing.push(() => process.stop());
    contenders.push(...ours.contenders);
  }
  return { contenders, absent };
}
