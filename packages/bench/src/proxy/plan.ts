import type { Group } from './contender.ts';
import type { Workload } from './workload.ts';

/** Workloads, and how each is measured. */
export interface Planned {
  readonly group: Group;
  readonly workload: Workload;
  readonly connections: number;
  readonly ms: number;
  readonly repeats: number;
  /** Before the first round. */
  readonly warmUpRequests: number;
}

export interface Effort {
  readonly repeats: number;
  /** Until the code of a contender is compiled. */
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
/** So many large bodies at once are enough. */
const LARGE_CONNECTIONS = 8;
/** A rate's requests find one that is free, unless a contender is far behind. */
const RATE_CONNECTIONS = 128;
/** Where another workload has warmed the same code. */
const FEW = 100;
/** Of the requests of the first workload, for those that share most of its code. */
const PART = 0.25;
/** Tails need more requests than throughput does. */
const RATE_TIMES = 2;

export function planOf({ repeats, roundMs, warmUpRequests }: Effort): Planned[] {
  const closed = (group: Group, workload: Workload, connections = CONNECTIONS): Planned => {
    return { group, workload, connections, ms: roundMs, repeats, warmUpRequests };
  };
  const open = (workload: Workload): Planned => {
    const ms = roundMs * RATE_TIMES;
    const connections = RATE_CONNECTIONS;
    return { group: 'open', workload, connections, ms, repeats, warmUpRequests: FEW };
  };
  return [
    closed('plain', PLAIN),
    { ...closed('streamed', STREAMED), warmUpRequests: warmUpRequests * PART },
    open(AT_RATE),
    open(STREAMED_AT_RATE),
    ...SIZES.map((workload) => ({
      ...closed('sizes', workload, LARGE_CONNECTIONS),
      warmUpRequests: FEW,
    })),
    { ...closed('keys', KEYS), warmUpRequests: warmUpRequests * PART },
  ];
}
