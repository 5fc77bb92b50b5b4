import { readFileSync } from 'node:fs';

/** What the scheduler of Linux did with the main thread of a process since that started. */
export interface SchedulerFigures {
  readonly ranMs: number;
  /** Time in which it could have run, but another thread had the core. */
  readonly waitedMs: number;
  readonly voluntarySwitches: number;
  readonly involuntarySwitches: number;
}

/** Undefined if the system does not report them. */
export function schedulerFigures(pid: number): SchedulerFigures | undefined {
  try {
    const read = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
    return parseScheduler(read('schedstat'), read('status'));
  } catch {
    return undefined;
  }
}

/** Parses `schedstat` (https://docs.kernel.org/scheduler/sched-stats.html) and `status` of a process. */
export function parseScheduler(schedstat: string, status: string): SchedulerFigures {
  const [ran = 0, waited = 0] = schedstat.trim().split(' ').map(Number);
  const switches = (kind: string) =>
    Number(new RegExp(`^${kind}_ctxt_switches:\\s*(\\d+)$`, 'm').exec(status)?.[1] ?? 0);
  return {
    ranMs: ran / 1e6,
    waitedMs: waited / 1e6,
    voluntarySwitches: switches('voluntary'),
    involuntarySwitches: switches('nonvoluntary'),
  };
}

export function schedulerDifference(after: SchedulerFigures, before: SchedulerFigures): SchedulerFigures {
  return {
    ranMs: after.ranMs - before.ranMs,
    waitedMs: after.waitedMs - before.waitedMs,
    voluntarySwitches: after.voluntarySwitches - before.voluntarySwitches,
    involuntarySwitches: after.involuntarySwitches - before.involuntarySwitches,
  };
}
