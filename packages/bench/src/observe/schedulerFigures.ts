import { readdirSync, readFileSync } from 'node:fs';

/** What the scheduler of Linux did with threads since they started. */
export interface SchedulerFigures {
  readonly ranMs: number;
  /** Time in which they could have run, but another thread had the core. */
  readonly waitedMs: number;
  readonly voluntarySwitches: number;
  readonly involuntarySwitches: number;
}

/** Of the main threads of these processes, or of all their threads. Undefined if the system does not report them. */
export function schedulerFiguresOfAll(
  pids: readonly number[],
  threads: 'main' | 'all',
): SchedulerFigures | undefined {
  if (pids.length === 0) return undefined;
  try {
    const all = pids.flatMap((pid) => {
      const ids = threads === 'main' ? [String(pid)] : readdirSync(`/proc/${pid}/task`);
      return ids.map((id) => {
        const read = (name: string) => readFileSync(`/proc/${pid}/task/${id}/${name}`, 'utf8');
        return parseScheduler(read('schedstat'), read('status'));
      });
    });
    return all.reduce((sum, one) => combine(sum, one, 1));
  } catch {
    return undefined;
  }
}

/** Parses `schedstat` (https://docs.kernel.org/scheduler/sched-stats.html) and `status` of a thread. */
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
  return combine(after, before, -1);
}

function combine(a: SchedulerFigures, b: SchedulerFigures, sign: 1 | -1): SchedulerFigures {
  return {
    ranMs: a.ranMs + sign * b.ranMs,
    waitedMs: a.waitedMs + sign * b.waitedMs,
    voluntarySwitches: a.voluntarySwitches + sign * b.voluntarySwitches,
    involuntarySwitches: a.involuntarySwitches + sign * b.involuntarySwitches,
  };
}
