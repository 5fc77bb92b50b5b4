import { setTimeout as sleep } from 'node:timers/promises';
import { cpuSeconds, processTree } from '../shared/cpu.ts';
import { type Contender, DIRECT } from './contender.ts';

/** Time for what a process has missed, such as timers, before it is measured. */
const AWAKE_MS = 50;

/**
 * Lets one contender at a time run, since they share a core: the others are stopped (SIGSTOP). Weighbridge goes on, since it would
 * lose its leases and its control plane; what it takes meanwhile is measured.
 */
export class Turns {
  readonly #contenders: readonly Contender[];

  constructor(contenders: readonly Contender[]) {
    this.#contenders = contenders;
    for (const contender of contenders) signal(contender, 'SIGSTOP');
  }

  /** Runs `use` while only this contender runs. */
  async of<T>(contender: Contender, use: () => Promise<T>): Promise<T> {
    signal(contender, 'SIGCONT');
    try {
      if (contender.mayBeStopped) await sleep(AWAKE_MS);
      return await use();
    } finally {
      signal(contender, 'SIGSTOP');
    }
  }

  /** CPU seconds of the processes of all others, with a proxy's process only once. */
  cpuOfOthers({ pid: own }: Contender): number {
    const pids = this.#contenders.flatMap(({ name, pid }) =>
      name === DIRECT || pid === own ? [] : (pid ?? []),
    );
    return [...new Set(pids)].reduce((sum, pid) => sum + (cpuSeconds(pid) ?? 0), 0);
  }

  /** Lets all run again, so that they can end. */
  end(): void {
    for (const contender of this.#contenders) signal(contender, 'SIGCONT');
  }
}

/** Runs `use` while of the processes that share a port only `one` runs, which gets all connections. */
export async function whileOneRuns<T>(
  pids: readonly number[],
  one: number,
  use: () => Promise<T>,
): Promise<T> {
  const others = pids.filter((pid) => pid !== one);
  signalAll(others, 'SIGSTOP');
  try {
    return await use();
  } finally {
    signalAll(others, 'SIGCONT');
  }
}

function signal({ pid, mayBeStopped }: Contender, name: 'SIGSTOP' | 'SIGCONT'): void {
  if (pid !== undefined && mayBeStopped) signalAll(processTree(pid), name);
}

function signalAll(pids: readonly number[], name: 'SIGSTOP' | 'SIGCONT'): void {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch {
      // It has ended: its next round says so.
    }
  }
}
