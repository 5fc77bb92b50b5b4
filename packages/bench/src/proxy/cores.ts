import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { childrenOf } from '../shared/cpu.ts';

/** Only on Linux: https://man7.org/linux/man-pages/man1/taskset.1.html. */
const TASKSET = 'taskset';

/** The assignment of cores. Undefined: the system decides. */
export interface Cores {
  readonly proxy: number | undefined;
  /** For two processes that share a port. */
  readonly pair: readonly number[] | undefined;
  /** Whether each of the pair has its own core and two remain for the rest. If not, only the CPU of the pair is meaningful. */
  readonly pairIsApart: boolean;
  /** For everything else. */
  readonly rest: readonly number[] | undefined;
  /** All cores that this process may use. */
  readonly available: readonly number[];
}

/** Assigns the first core to the proxy, and the others to load, vendor, NATS, metering and Postgres. */
export function assignCores(available: readonly number[]): Cores {
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

/** The cores that this process may run on; empty without `taskset`. */
export function availableCores(): number[] {
  try {
    return parseCoreList(execFileSync(TASKSET, ['-cp', String(process.pid)], { encoding: 'utf8' }));
  } catch {
    return [];
  }
}

/** Parses the output of `taskset`: `pid 7's current affinity list: 0,2-4`. */
export function parseCoreList(output: string): number[] {
  const list = output.trim().split(': ').at(-1) ?? '';
  return list.split(',').flatMap((part) => {
    const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? [];
    const length = first === undefined ? 0 : Number(last) - Number(first) + 1;
    return Array.from({ length }, (_, at) => Number(first) + at);
  });
}

/** Keeps this process, and those that it starts from now on without an assigned core, off the proxies' cores. */
export function pinSelf({ rest }: Cores): void {
  if (rest) runOn(rest);
}

/** Undoes `pinSelf`. */
export function unpinSelf({ rest, available }: Cores): void {
  if (rest) runOn(available);
}

function runOn(cores: readonly number[]): void {
  execFileSync(TASKSET, ['-acp', cores.join(','), String(process.pid)], { stdio: 'ignore' });
}

/** Nice value (https://man7.org/linux/man-pages/man7/sched.7.html), below the default priority. */
const LOW_PRIORITY = 15;

/**
 * Lowers the priority of these processes, so that a load generator on the same cores is not late because of them. They do
 * the same work, only later.
 */
export function lowerPriority(pids: readonly number[]): void {
  for (const pid of pids.flatMap((parent) => [parent, ...childrenOf(parent)])) {
    for (const thread of threadsOf(pid)) lowerOne(thread);
  }
}

function lowerOne(pid: number): void {
  try {
    setPriority(pid, LOW_PRIORITY);
  } catch (error) {
    // A process or thread may have ended since it was listed.
    if ((error as { info?: { code?: string } }).info?.code !== 'ESRCH') throw error;
  }
}

/** On Linux each thread has a priority; elsewhere the process has one. */
function threadsOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [pid];
  }
}
