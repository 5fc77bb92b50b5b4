import { execFileSync } from 'node:child_process';

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
