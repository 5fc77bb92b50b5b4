import { processTree } from '../shared/cpu.ts';
import { type Buckets, parseHistogram, quantileBetween } from './histogram.ts';
import { figuresOfAll, type NodeFigures, type NodeObserver } from './nodeFigures.ts';
import { type SchedulerFigures, schedulerDifference, schedulerFiguresOfAll } from './schedulerFigures.ts';

const OVERHEAD = 'weighbridge_request_overhead_seconds';

/** What is known of a contender during a round besides what the load generator saw. */
export interface Records {
  readonly requests: number;
  /** The overhead that Weighbridge reports of itself, without what it does after an answer. */
  readonly overheadMs?: { readonly p50: number; readonly p99: number };
  /** Of Node processes that were started with the observer. */
  readonly node?: NodeFigures;
  /** Of the main threads if these are Node processes with the observer, otherwise of all threads. */
  readonly scheduler?: SchedulerFigures;
}

export interface Observed {
  readonly pid: number | undefined;
  /** Whether its Node was started with the observer. */
  readonly isObserved?: boolean;
  /** The processes that share its connections, if there are several: children of `pid`, which serves nothing itself. */
  readonly processes?: number;
  /** Its metrics page, if it is Weighbridge; of several processes, that of the first. */
  readonly metricsUrl?: string;
}

/** Begins to record; the result ends it, once the round's requests are known. */
export async function startRecording(
  observed: Observed,
  observer: NodeObserver,
): Promise<(requests: number) => Promise<Records>> {
  const { isObserved, metricsUrl } = observed;
  const pids = servingProcesses(observed);
  const overheadBefore = metricsUrl === undefined ? undefined : await readOverhead(metricsUrl);
  const readNode = async () =>
    isObserved ? figuresOfAll(await Promise.all(pids.map((pid) => observer.read(pid)))) : undefined;
  await readNode();
  const readScheduler = () => schedulerFiguresOfAll(pids, isObserved ? 'main' : 'all');
  const schedulerBefore = readScheduler();
  return async (requests) => {
    const scheduler = readScheduler();
    const node = await readNode();
    const overheadMs =
      metricsUrl !== undefined && overheadBefore && between(overheadBefore, await readOverhead(metricsUrl));
    return {
      requests,
      ...(overheadMs && { overheadMs }),
      ...(node && { node }),
      ...(scheduler && schedulerBefore && { scheduler: schedulerDifference(scheduler, schedulerBefore) }),
    };
  };
}

/** The pids of the processes that serve a contender; none if it is not known. */
export function servingProcesses({ pid, processes = 1 }: Observed): number[] {
  if (pid === undefined) return [];
  return processes === 1 ? [pid] : processTree(pid).slice(1);
}

async function readOverhead(metricsUrl: string): Promise<Buckets> {
  const response = await fetch(metricsUrl);
  return parseHistogram(await response.text(), OVERHEAD);
}

function between(before: Buckets, after: Buckets): Records['overheadMs'] {
  const p50 = quantileBetween(before, after, 0.5);
  const p99 = quantileBetween(before, after, 0.99);
  return p50 === undefined || p99 === undefined ? undefined : { p50: p50 * 1_000, p99: p99 * 1_000 };
}
