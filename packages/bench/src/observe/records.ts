import { type Buckets, parseHistogram, quantileBetween } from './histogram.ts';
import type { NodeFigures, NodeObserver } from './nodeFigures.ts';
import { type SchedulerFigures, schedulerDifference, schedulerFigures } from './schedulerFigures.ts';

const OVERHEAD = 'weighbridge_request_overhead_seconds';

/** What is known of a contender during a round besides what the load generator saw. */
export interface Records {
  readonly requests: number;
  /** The overhead that Weighbridge reports of itself, without what it does after an answer. */
  readonly overheadMs?: { readonly p50: number; readonly p99: number };
  /** Of a Node process that was started with the observer. */
  readonly node?: NodeFigures;
  /** Of its main thread if it is a Node process with the observer, otherwise of all its threads. */
  readonly scheduler?: SchedulerFigures;
}

export interface Observed {
  readonly pid: number | undefined;
  /** Whether its Node was started with the observer. */
  readonly isObserved?: boolean;
  /** Its metrics page, if it is Weighbridge. */
  readonly metricsUrl?: string;
}

/** Begins to record; the result ends it, once the round's requests are known. */
export async function startRecording(
  { pid, isObserved, metricsUrl }: Observed,
  observer: NodeObserver,
): Promise<(requests: number) => Promise<Records>> {
  const overheadBefore = metricsUrl === undefined ? undefined : await readOverhead(metricsUrl);
  const readNode = async () => (pid !== undefined && isObserved ? await observer.read(pid) : undefined);
  await readNode();
  const readScheduler = () =>
    pid === undefined ? undefined : schedulerFigures(pid, isObserved ? 'main' : 'all');
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

async function readOverhead(metricsUrl: string): Promise<Buckets> {
  const response = await fetch(metricsUrl);
  return parseHistogram(await response.text(), OVERHEAD);
}

function between(before: Buckets, after: Buckets): Records['overheadMs'] {
  const p50 = quantileBetween(before, after, 0.5);
  const p99 = quantileBetween(before, after, 0.99);
  return p50 === undefined || p99 === undefined ? undefined : { p50: p50 * 1_000, p99: p99 * 1_000 };
}
