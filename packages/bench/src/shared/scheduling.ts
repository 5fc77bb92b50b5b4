import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setPriority } from 'node:os';
import { processTree } from './cpu.ts';

/** Only on Linux: https://man7.org/linux/man-pages/man1/chrt.1.html. */
const CHRT = 'chrt';
/** Nice value (https://man7.org/linux/man-pages/man7/sched.7.html), below the default priority. */
const LOW_PRIORITY = 15;

let mayRunInRealTime: boolean | undefined;

/** Whether processes can get a real-time priority, which needs root or `CAP_SYS_NICE`. */
export function canRunInRealTime(): boolean {
  mayRunInRealTime ??= succeeds(['--rr', '1', 'true']);
  return mayRunInRealTime;
}

/** The command at this real-time priority (a higher one runs first), or unchanged where that is not permitted. */
export function inRealTime(priority: number | undefined, command: readonly string[]): readonly string[] {
  if (priority === undefined || !canRunInRealTime()) return command;
  return [CHRT, '--rr', String(priority), ...command];
}

/**
 * Lowers the priority of these processes and their children, so that a load generator on the same cores is not late because
 * of them. They do the same work, only later: with `onlyWhenIdle`, when nothing else wants to run.
 */
export function lowerPriority(pids: readonly number[], options: { readonly onlyWhenIdle: boolean }): void {
  for (const pid of pids.flatMap(processTree)) {
    if (options.onlyWhenIdle && succeeds(['--idle', '--all-tasks', '--pid', '0', String(pid)])) continue;
    for (const thread of threadsOf(pid)) lowerOne(thread);
  }
}

function succeeds(args: readonly string[]): boolean {
  try {
    execFileSync(CHRT, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
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
