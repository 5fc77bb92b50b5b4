import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { childrenOf } from '../cpu.ts';

/** Of Linux: https://man7.org/linux/man-pages/man1/taskset.1.html. */
const TASKSET = 'taskset';

/** Which cores do what. Undefined: wherever the system puts it. */
export interface Cores {
  readonly proxy: number | undefined;
  /** Of two processes that share a port. */
  readonly pair: readonly number[] | undefined;
  /** Whether each of the pair has a core, and two are left for the rest: else only their CPU says something. */
  readonly pairIsApart: boolean;
  /** For everything else. */
  readonly rest: readonly number[] | undefined;
  /** All of them. */
  readonly available: readonly number[];
}

/** The first core for the proxy, the others for load, vendor, NATS, metering and the databases. */
export function dealCores(available: readonly number[]): Cores {
  const [first, second, ...more] = available;
  if (first === undefined || second === undefined) {
    return { proxy: undefined, pair: undefined, pairIsApart: false, rest: undefined, available };
  }
  const pairIsApart = more.length >= 2;
  return {
    proxy: first,
    pair: pairIsApart ? [first, second] : [first],
    pairIsApart,
    rest: pairIsApart ? more : [second, ...more],
    available,
  };
}

/** Those that this process may run on; none where the system does not tell. */
export function availableCores(): number[] {
  try {
    return coresOf(execFileSync(TASKSET, ['-cp', String(process.pid)], { encoding: 'utf8' }));
  } catch {
    return [];
  }
}

/** Of what `taskset` says: `pid 7's current affinity list: 0,2-4`. */
export function coresOf(said: string): number[] {
  const list = said.trim().split(': ').at(-1) ?? '';
  return list.split(',').flatMap((part) => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    const length = first === undefined ? 0 : Number(last) - Number(first) + 1;
    return Array.from({ length }, (_, at) => Number(first) + at);
  });
}

/** Keeps this process, and whatever it starts from now on without a core of its own, off the proxies' cores. */
export function pinSelf({ rest }: Cores): void {
  if (rest) runOn(rest);
}

/** For what is measured wherever the system puts it. */
export function unpinSelf({ rest, available }: Cores): void {
  if (rest) runOn(available);
}

function runOn(cores: readonly number[]): void {
  execFileSync(TASKSET, ['-acp', cores.join(','), String(process.pid)], { stdio: 'ignore' });
}

/** Of https://man7.org/linux/man-pages/man7/sched.7.html, below what runs without one. */
const LOW_PRIORITY = 15;

/**
 * Lets others go first on the cores that they share. What a process does is not less by that, but when it is done: a load
 * generator that waits for it would be late.
 */
export function giveWay(pids: readonly number[]): void {
  for (const pid of pids.flatMap((parent) => [parent, ...childrenOf(parent)])) {
    for (const thread of threadsOf(pid)) setPriority(thread, LOW_PRIORITY);
  }
}

/** Linux has a priority for each thread; elsewhere the process has one. */
function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [pid];
  }
}
