import type { Group } from './contender.ts';
import type { Workload } from './workload.ts';

/** A workload and how it is measured. */
export interface PlannedWorkload {
  readonly group: Group;
  readonly workload: Workload;
  readonly connections: number;
  readonly ms: number;
  readonly repeats: number;
  /** Requests before the first round. */
  readonly warmUpRequests: number;
}

export interface Effort {
  readonly repeats: number;
  /** Requests until a contender's code is compiled. */
  readonly warmUpRequests: number;
  readonly roundMs: number;
}

const KIB = 1_024;
export const PLAIN = { name: '1 KB', stream: false, bytes: KIB } satisfies Workload;
export const STREAMED = { name: 'streamed', stream: true, bytes: KIB } satisfies Workload;
export const LARGE = { name: '1 MB', stream: false, bytes: KIB * KIB } satisfies Workload;
export const SIZES: readonly Workload[] = [
  { name: '10 KB', stream: false, bytes: 10 * KIB },
  { name: '100 KB', stream: false, bytes: 100 * KIB },
  LARGE,
];
export const AT_RATE = { ...PLAIN, name: '1 KB at 1,000/s', rate: 1_000 } satisfies Workload;
export const STREAMED_AT_RATE = { ...STREAMED, name: 'streamed at 100/s', rate: 100 } satisfies Workload;
export const KEYS = { ...PLAIN, name: '1 KB, keys in turns' } satisfies Workload;

const CONNECTIONS = 32;
/** Enough for large bodies. */
const LARGE_CONNECTIONS = 8;
/** Enough that a request at a rate finds a free connection, unless a contender is far behind. */
const RATE_CONNECTIONS = 128;
/** Warm-up requests if another workload has warmed the same code. */
const FEW_REQUESTS = 100;
/** Share of the warm-up requests for a workload that uses mostly the code of the first one. */
const WARM_UP_SHARE = 0.25;
/** Tail latency needs more requests than throughput does. */
const RATE_FACTOR = 2;

export function planWorkloads({ repeats, roundMs, warmUpRequests }: Effort): PlannedWorkload[] {
  const closed = (group: Group, workload: Workload, connections = CONNECTIONS): PlannedWorkload => {
    return { group, workload, connections, ms: roundMs, repeats, warmUpRequests };
  };
  const open = (workload: Workload): PlannedWorkload => {
    const ms = roundMs * RATE_FACTOR;
    const connections = RATE_CONNECTIONS;
    return { group: 'open', workload, connections, ms, repeats, warmUpRequests: FEW_REQUESTS };
  };
  return [
    closed('plain', PLAIN),
    { ...closed('streamed', STREAMED), warmUpRequests: warmUpRequests * WARM_UP_SHARE },
    open(AT_RATE),
    open(STREAMED_AT_RATE),
    ...SIZES.map((workload) => ({
      ...closed('sizes', workload, LARGE_CONNECTIONS),
      warmUpRequests: FEW_REQUESTS,
    })),
    { ...closed('keys', KEYS), warmUpRequests: warmUpRequests * WARM_UP_SHARE },
  ];
}
