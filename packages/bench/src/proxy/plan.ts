import type { Group } from './contender.ts';
import type { Workload } from './workload.ts';

/** A workload and how it is measured. */
export interface PlannedWorkload {
  /** Its name on the command line. */
  readonly lane: string;
  readonly group: Group;
  readonly workload: Workload;
  readonly connections: number;
  readonly ms: number;
  /** Ends a round before its time. */
  readonly maxRequests?: number;
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
/** The smallest request that the fields need, as in other benchmarks of gateways. */
const SMALL = 86;
export const PLAIN = { name: '1 KB', stream: false, bytes: KIB } satisfies Workload;
export const FEW_CALLERS = { ...PLAIN, name: '1 KB, 8 connections' } satisfies Workload;
export const ONE_CALLER = { name: 'one caller, 86 bytes', stream: false, bytes: SMALL } satisfies Workload;
export const STREAMED = { name: 'streamed', stream: true, bytes: KIB } satisfies Workload;
export const FIRST_EVENT = { name: 'one stream at a time', stream: true, bytes: SMALL } satisfies Workload;
export const LARGE = { name: '1 MB', stream: false, bytes: KIB * KIB } satisfies Workload;
export const TEN_KB = { name: '10 KB', stream: false, bytes: 10 * KIB } satisfies Workload;
export const HUNDRED_KB = { name: '100 KB', stream: false, bytes: 100 * KIB } satisfies Workload;
export const AT_RATE = { ...PLAIN, name: '1 KB at 1,000/s', rate: 1_000 } satisfies Workload;
/** Its streams start in no step with the chunks of others. */
export const PACED = {
  ...STREAMED,
  name: '64 chunks 20 ms apart, 23 streams/s',
  isPaced: true,
  rate: 23,
} satisfies Workload;
export const KEYS = { ...PLAIN, name: '1 KB, keys in turns' } satisfies Workload;

const CONNECTIONS = 32;
const FEW_CONNECTIONS = 8;
/** Enough that a request at a rate finds a free connection, unless a contender is far behind. */
const RATE_CONNECTIONS = 128;
/** Of paced streams, each of which lasts 1.3 s. */
const PACED_CONNECTIONS = 48;
/** Warm-up requests if another workload has warmed the same code. */
const FEW_REQUESTS = 100;
/** Share of the warm-up requests for a workload that uses mostly the code of the first one. */
const WARM_UP_SHARE = 0.25;
/** Tail latency needs more requests than throughput does. */
const LATENCY_FACTOR = 2;
const STREAMS_IN_TURN = 100;
const MAX_STREAMS_MS = 60_000;

/** Every lane, in the order in which they are measured. */
export function planWorkloads({ repeats, roundMs, warmUpRequests }: Effort): PlannedWorkload[] {
  const closed = (
    lane: string,
    group: Group,
    workload: Workload,
    more: Partial<PlannedWorkload> = {},
  ): PlannedWorkload => {
    const usual = { connections: CONNECTIONS, ms: roundMs, warmUpRequests: FEW_REQUESTS };
    return { lane, group, workload, repeats, ...usual, ...more };
  };
  const long = { ms: roundMs * LATENCY_FACTOR };
  const open = { ...long, connections: RATE_CONNECTIONS };
  const few = { connections: FEW_CONNECTIONS };
  const share = { warmUpRequests: warmUpRequests * WARM_UP_SHARE };
  // Which code is compiled depends on how many requests share a turn of the event loop.
  const all = { warmUpRequests };
  const inTurn = {
    connections: 1,
    ms: MAX_STREAMS_MS,
    maxRequests: Math.min(STREAMS_IN_TURN, warmUpRequests),
  };
  return [
    closed('caller', 'small', ONE_CALLER, { ...long, connections: 1 }),
    closed('first', 'streamed', FIRST_EVENT, { ...inTurn, ...share }),
    closed('c8', 'plain', FEW_CALLERS, { ...few, ...all }),
    closed('c32', 'plain', PLAIN, all),
    closed('streamed', 'streamed', STREAMED, share),
    closed('rate', 'open', AT_RATE, open),
    closed('paced', 'open', PACED, { ...open, connections: PACED_CONNECTIONS }),
    closed('10kb', 'sizes', TEN_KB, { ...few, ...share }),
    closed('100kb', 'sizes', HUNDRED_KB, { ...few, ...share }),
    closed('1mb', 'sizes', LARGE, { ...few, ...share }),
    closed('keys', 'keys', KEYS, share),
  ];
}

/** The names of all lanes. */
export const LANES = planWorkloads({ repeats: 1, roundMs: 1, warmUpRequests: 1 }).map(({ lane }) => lane);

/** What compiles a contender's code before the first lane, whichever that is. */
export function warmUpWorkload({ repeats, roundMs, warmUpRequests }: Effort): PlannedWorkload {
  const lane = 'warm-up';
  const workload = { ...PLAIN, name: lane };
  return { lane, group: 'plain', workload, connections: CONNECTIONS, ms: roundMs, repeats, warmUpRequests };
}
