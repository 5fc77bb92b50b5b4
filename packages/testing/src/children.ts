import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Records the processes that test files started as files in the run's folder, so that the main process can end them if a
 * worker did not. A file is named by the pid and contains the start time, since pids are reused.
 */
const FOLDER = 'children';

export function openTracking(runFolder: string): void {
  mkdirSync(join(runFolder, FOLDER));
}

/** Throws if the run has ended: a worker that outlives it must not start further processes. */
export function track(runFolder: string, pid: number): void {
  writeFileSync(join(runFolder, FOLDER, String(pid)), startTime(pid) ?? '');
}

export function untrack(runFolder: string, pid: number): void {
  rmSync(join(runFolder, FOLDER, String(pid)), { force: true });
}

/** Sends SIGTERM to all processes that still run, and SIGKILL after `graceMs`. Synchronous, for use at exit. */
export function endTracked(runFolder: string, graceMs: number): void {
  signalTracked(runFolder, 'SIGTERM');
  waitSync(graceMs, () => running(runFolder).length === 0);
  signalTracked(runFolder, 'SIGKILL');
}

/** Blocks the thread until the condition holds or the time is up. */
export function waitSync(timeoutMs: number, condition: () => boolean): void {
  const neverNotified = new Int32Array(new SharedArrayBuffer(4));
  for (const deadline = Date.now() + timeoutMs; !condition() && Date.now() < deadline; ) {
    Atomics.wait(neverNotified, 0, 0, 20);
  }
}

function signalTracked(runFolder: string, signal: NodeJS.Signals): void {
  for (const pid of running(runFolder)) {
    try {
      process.kill(pid, signal);
    } catch {
      // It ended in the meantime.
    }
  }
}

function running(runFolder: string): number[] {
  return tracked(runFolder)
    .map(Number)
    .filter((pid) => {
      const started = readStartTime(runFolder, pid);
      return started !== undefined && started === startTime(pid);
    });
}

function tracked(runFolder: string): string[] {
  try {
    return readdirSync(join(runFolder, FOLDER));
  } catch {
    return [];
  }
}

function readStartTime(runFolder: string, pid: number): string | undefined {
  try {
    return readFileSync(join(runFolder, FOLDER, String(pid)), 'utf8') || undefined;
  } catch {
    return undefined;
  }
}

/** The start time of a process in the system's format; undefined if it has ended, or is a zombie. */
function startTime(pid: number): string | undefined {
  try {
    if (process.platform !== 'linux')
      return execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)]).toString();
    // See proc_pid_stat(5): the state (field 3) follows the name in parentheses; the start time is field 22.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
