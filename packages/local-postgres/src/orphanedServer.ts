import { execFile } from 'node:child_process';
import { constants } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { LocalPostgresError, systemCode } from './errors.ts';

const POLL_MS = 15;
const IMMEDIATE_STOP_TIMEOUT_MS = 10_000;

/**
 * Stops the server of an owner that was killed. This process holds the lock of the data folder, so a running server has no
 * living owner. Another process that has the same pid by now is not touched.
 */
export async function stopOrphanedServer(cluster: string, stopTimeoutMs: number): Promise<void> {
  const pidFile = join(cluster, 'postmaster.pid');
  const pid = Number.parseInt(await readFile(pidFile, 'utf8').catch(() => ''), 10);
  if (!Number.isSafeInteger(pid) || pid <= 1) return;
  if (!(await isServerOf(pid, cluster))) {
    if (isAlive(pid)) await disownPidFile(pidFile);
    return;
  }
  const steps = [
    { signal: 'SIGINT', timeoutMs: stopTimeoutMs },
    { signal: 'SIGQUIT', timeoutMs: IMMEDIATE_STOP_TIMEOUT_MS },
  ] as const;
  for (const { signal, timeoutMs } of steps) {
    signalIfAlive(pid, signal);
    for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await sleep(POLL_MS)) {
      if (!(await isServerOf(pid, cluster))) return;
    }
  }
  throw new LocalPostgresError(
    `Postgres (pid ${pid}) still runs on ${cluster} and did not stop: kill it, then start again`,
  );
}

/**
 * Another process has the pid by now (pids repeat in containers). Postgres would take it for a running server, unless the pid
 * is that of its own parent: then it checks by the rest of the file whether the shared memory is in use.
 */
async function disownPidFile(pidFile: string): Promise<void> {
  const content = await readFile(pidFile, 'utf8');
  const file = await open(pidFile, constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
  try {
    await file.writeFile(content.replace(/^\d+/, String(process.pid)));
  } finally {
    await file.close();
  }
}

/** By its command line, which the main server process does not change. A zombie has none, and counts as ended. */
async function isServerOf(pid: number, cluster: string): Promise<boolean> {
  if (process.platform === 'linux') {
    const [command = '', ...args] = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split(
      '\0',
    );
    return command.endsWith('/postgres') && args[args.indexOf('-D') + 1] === cluster;
  }
  const ps = await promisify(execFile)('/bin/ps', ['-ww', '-o', 'command=', '-p', String(pid)]).catch(
    () => undefined,
  );
  return ps?.stdout.includes(`/postgres -D ${cluster} `) ?? false;
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return systemCode(error) === 'EPERM';
  }
}

function signalIfAlive(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}
