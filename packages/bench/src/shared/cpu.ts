import { existsSync, readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';

/** Linux reports CPU time to processes in units of 10 ms, whatever tick its kernel uses. */
const TICK_SECONDS = 0.01;

interface ProcessTimes {
  readonly parent: number;
  readonly ownSeconds: number;
  /** Of children that have ended. */
  readonly endedSeconds: number;
}

/** CPU seconds of a process and its descendants, including ended children. Undefined if the system does not report them. */
export function cpuSeconds(pid: number | undefined): number | undefined {
  const root = pid === undefined ? undefined : processTimes(pid);
  if (pid === undefined || !root) return undefined;
  return processTree(pid).reduce((sum, one) => {
    const times = processTimes(one);
    return sum + (times ? times.ownSeconds + times.endedSeconds : 0);
  }, 0);
}

/** The pids of a process and its descendants; only its own if the system has no `/proc`. */
export function processTree(pid: number): number[] {
  if (!existsSync('/proc')) return [pid];
  const childrenOf = new Map<number, number[]>();
  for (const name of readdirSync('/proc')) {
    const parent = /^\d+$/.test(name) ? processTimes(Number(name))?.parent : undefined;
    if (parent === undefined) continue;
    childrenOf.set(parent, [...(childrenOf.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  // Grows while it is read.
  for (const one of tree) tree.push(...(childrenOf.get(one) ?? []));
  return tree;
}

/** The pid of Postgres's main process; undefined if it runs on another machine or the system has no `/proc`. */
export async function findPostmaster(databaseUrl: string): Promise<number | undefined> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const [backend] = rows;
    return backend && processTimes(backend.pid)?.parent;
  } finally {
    await client.end();
  }
}

/** Reads `/proc/PID/stat` (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html). */
function processTimes(pid: number): ProcessTimes | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name (field 2, in parentheses) may contain anything. The state (field 3) follows it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const seconds = (field: number) => Number(fields[field - 3]) * TICK_SECONDS;
  return {
    parent: Number(fields[1]),
    ownSeconds: seconds(14) + seconds(15),
    endedSeconds: seconds(16) + seconds(17),
  };
}
