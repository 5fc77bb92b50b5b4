import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const INTERVAL_MS = 250;
const NS_PER_MS = 1_000_000;

/** Processes that answer for each other: of several, one request waits for one at a time. */
export interface WatchedProcesses {
  readonly name: string;
  pids(): Promise<readonly number[]>;
}

/** How long a process was ready to run and had no CPU, between two readings of the kernel's count. */
interface Wait {
  readonly name: string;
  readonly pid: number;
  /** Monotonic, in milliseconds. */
  readonly from: number;
  readonly to: number;
  readonly ms: number;
}

/**
 * Tells a starved machine from a slow service: the kernel counts for how long each process waits for a CPU. A process that is
 * stopped, sleeps, or waits for a lock or a disk is not ready to run, and adds nothing. Linux only; elsewhere all waits are 0.
 */
export class CpuWaits {
  readonly #waits: Wait[] = [];

  add(wait: Wait): void {
    this.#waits.push(wait);
  }

  /** In this period, in milliseconds: the sum over the names, of the process that waited longest under each. */
  waitedMs(names: readonly string[], from: number, to: number): number {
    const byName = new Map<string, Map<number, number>>(names.map((name) => [name, new Map()]));
    for (const wait of this.#waits) {
      const overlap = Math.min(to, wait.to) - Math.max(from, wait.from);
      const byPid = byName.get(wait.name);
      if (overlap <= 0 || !byPid) continue;
      const ms = (wait.ms * overlap) / (wait.to - wait.from);
      byPid.set(wait.pid, (byPid.get(wait.pid) ?? 0) + ms);
    }
    return [...byName.values()].reduce((sum, byPid) => sum + Math.max(0, ...byPid.values()), 0);
  }
}

/** Reads the kernel's counts until it is stopped. */
export function watchCpuWaits(watched: readonly WatchedProcesses[]) {
  const waits = new CpuWaits();
  const last = new Map<number, { readonly at: number; readonly ns: number }>();
  let isOver = false;
  const read = async ({ name, pids }: WatchedProcesses) => {
    for (const pid of await pids().catch(() => [])) {
      const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => undefined);
      if (text === undefined) continue;
      // Time on a CPU, time ready to run without one, and the number of turns.
      const reading = { at: performance.now(), ns: Number(text.split(' ')[1]) };
      const before = last.get(pid);
      last.set(pid, reading);
      // Less: the system gave the number of an ended process to a new one.
      if (!before || reading.ns < before.ns) continue;
      waits.add({ name, pid, from: before.at, to: reading.at, ms: (reading.ns - before.ns) / NS_PER_MS });
    }
  };
  const watching = (async () => {
    while (!isOver) {
      for (const one of watched) await read(one);
      await sleep(INTERVAL_MS);
    }
    for (const one of watched) await read(one);
  })();
  return {
    waits,
    async stop(): Promise<void> {
      isOver = true;
      await watching;
    },
  };
}
