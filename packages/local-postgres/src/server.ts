import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, renameSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, notRunnable, SERVER_ENV } from './account.ts';
import type { Binaries } from './binaries.ts';
import { LocalPostgresError, tailOfFile } from './errors.ts';
import type { Folder } from './folder.ts';
import { watchOwner } from './ownerWatch.ts';

const POLL_MS = 10;
const IMMEDIATE_STOP_TIMEOUT_MS = 10_000;
const KILL_TIMEOUT_MS = 5_000;

export interface ServerOptions {
  readonly account: Account;
  readonly binaries: Binaries;
  readonly folder: Folder;
  readonly settings: Readonly<Record<string, string>>;
  readonly startTimeoutMs: number;
  /** Default: a free one. */
  readonly port?: number;
}

/** A server process. Its states are starting → ready → stopping → ended; it may also end by itself in any state. */
export interface Server {
  readonly port: number;
  /** Resolves when the process has ended, with the reason: `exit code 1`, `signal SIGKILL`. */
  readonly ended: Promise<string>;
  /** Tries a fast shutdown, then an immediate one, then SIGKILL. */
  stop(timeoutMs: number): Promise<void>;
}

/** Starts the server and waits until it accepts connections. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { folder, startTimeoutMs, port } = options;
  const deadline = Date.now() + startTimeoutMs;
  if (existsSync(folder.log)) renameSync(folder.log, folder.previousLog);
  for (;;) {
    const { pid, server } = spawnServer(options, port ?? (await freePort()));
    const outcome = await readyOrEnded(pid, server, folder, deadline);
    if (outcome === 'ready') return server;
    if (outcome === 'timeout') {
      await server.stop(0);
      throw new LocalPostgresError(
        `Postgres was not ready within ${startTimeoutMs / 1000} s in ${folder.cluster}. The end of its log ${folder.log}:${await tailOfFile(folder.log)}`,
      );
    }
    const log = await tailOfFile(folder.log);
    // Another process took the port meanwhile, or the last children of a killed server are still ending.
    const isTransient = /could not bind|could not create any TCP|pre-existing shared memory block/.test(log);
    if (!isTransient || Date.now() > deadline) {
      throw new LocalPostgresError(
        `Postgres could not start in ${folder.cluster} (${outcome}). The end of its log ${folder.log}:${log}`,
      );
    }
    await sleep(100);
  }
}

function spawnServer({ account, binaries, folder, settings }: ServerOptions, port: number) {
  const all = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    max_connections: '100',
    shared_buffers: '128MB',
    log_checkpoints: 'off',
    ...settings,
  };
  // Appends, so that the reason of a retry stays in the log.
  const log = openSync(folder.log, 'a', 0o600);
  let child: ChildProcess;
  try {
    child = spawn(
      binaries.postgres,
      ['-D', folder.cluster, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      {
        // Its own session: a terminal's Ctrl-C goes to the owner only, which then stops the server.
        detached: true,
        cwd: '/',
        env: SERVER_ENV,
        stdio: ['ignore', log, log],
        ...(account.switched && { uid: account.uid, gid: account.gid }),
      },
    );
  } finally {
    closeSync(log);
  }
  // Also ends with an owner that does not stop it, for instance after an uncaught error. Prepended, to run before the
  // owner's own exit handlers.
  const stopWithOwner = () => child.kill('SIGINT');
  process.prependListener('exit', stopWithOwner);
  const watch = watchOwner(account, child.pid, pidFileOf(folder));
  const ended = new Promise<string>((resolve, reject) => {
    child.once('error', (error) => reject(notRunnable(binaries.postgres, error)));
    child.once('exit', (code, signal) => resolve(signal ? `signal ${signal}` : `exit code ${code}`));
  }).finally(() => {
    process.off('exit', stopWithOwner);
    watch?.kill('SIGKILL');
  });
  const stop = (timeoutMs: number) => stopServer(child, ended, timeoutMs);
  return { pid: child.pid, server: { port, ended, stop } };
}

/** Reads the server's state from the eighth line of its pid file, which needs no connection. */
async function readyOrEnded(
  pid: number | undefined,
  server: Server,
  folder: Folder,
  deadline: number,
): Promise<string> {
  let end: string | undefined;
  const watch = server.ended.then((how) => {
    end = how;
  });
  while (Date.now() < deadline) {
    await Promise.race([watch, sleep(POLL_MS)]);
    if (end !== undefined) return end;
    const lines = (await readFile(pidFileOf(folder), 'utf8').catch(() => '')).split('\n');
    if (lines[0] === String(pid) && lines[7]?.trim() === 'ready') return 'ready';
  }
  return 'timeout';
}

function pidFileOf(folder: Folder): string {
  return join(folder.cluster, 'postmaster.pid');
}

async function stopServer(child: ChildProcess, ended: Promise<string>, timeoutMs: number): Promise<void> {
  const steps = [
    { signal: 'SIGINT', timeoutMs },
    { signal: 'SIGQUIT', timeoutMs: IMMEDIATE_STOP_TIMEOUT_MS },
    { signal: 'SIGKILL', timeoutMs: KILL_TIMEOUT_MS },
  ] as const;
  for (const step of steps) {
    child.kill(step.signal);
    if (await within(step.timeoutMs, ended)) return;
  }
  throw new LocalPostgresError(`Postgres (pid ${child.pid}) did not end after SIGKILL`);
}

/** Whether the promise settles in time. */
async function within(timeoutMs: number, promise: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  try {
    return await Promise.race([
      promise.then(() => true),
      sleep(timeoutMs, false, { signal: timer.signal }).catch(() => false),
    ]);
  } finally {
    timer.abort();
  }
}

async function freePort(): Promise<number> {
  const probe = createServer();
  return new Promise((resolve, reject) => {
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
