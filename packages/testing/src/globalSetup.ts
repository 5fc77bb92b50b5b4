import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { endTracked, openTracking, waitSync } from './children.ts';
import { dockerAnswers } from './docker.ts';
import { readTestEnvironment } from './env.ts';
import { downloadNats } from './natsDownload.ts';
import { locateNats } from './natsSource.ts';
import { openPostgres } from './postgresServer.ts';
import './testRun.ts';

const PROBE_TIMEOUT_MS = 5_000;
const GRACE_MS = 3_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Starts Postgres and finds NATS, once for the whole run. Returns what takes everything down again. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const env = readTestEnvironment();
  const run = openRun();
  const [postgres, nats] = await Promise.allSettled([
    openPostgres({ givenUrl: env.databaseUrl, runFolder: run.folder, runId: run.id, dockerAnswers }),
    locateNats(env, join(run.folder, 'cache'), {
      isNatsServer,
      answers,
      dockerAnswers,
      download: (cacheDir) => downloadNats(cacheDir, env.all),
    }),
  ]);
  if (postgres.status === 'fulfilled') run.onClose(postgres.value.close);
  if (postgres.status === 'rejected' || nats.status === 'rejected') {
    await run.close();
    throw postgres.status === 'rejected'
      ? postgres.reason
      : nats.status === 'rejected'
        ? nats.reason
        : undefined;
  }
  project.provide('weighbridge', {
    folder: run.folder,
    id: run.id,
    postgres: postgres.value.postgres,
    nats: nats.value,
  });
  return run.close;
}

/** The run's folder, and a promise that nothing outlives the run: not at its end, nor when it is interrupted. */
function openRun() {
  const folder = mkdtempSync(join(tmpdir(), 'weighbridge-test-'));
  chmodSync(folder, 0o711); // As root, Postgres runs as another user.
  openTracking(folder);
  const closers: (() => Promise<void>)[] = [];

  const interrupt = (_: NodeJS.Signals, number: number) => process.exit(128 + number);
  // Synchronous, and the whole of it: vitest itself calls process.exit a millisecond after a signal. The local Postgres
  // was told to stop by its own handler, which comes before this.
  const onExit = () => {
    endTracked(folder, GRACE_MS);
    waitSync(GRACE_MS, () => !existsSync(join(folder, 'postgres', 'cluster', 'postmaster.pid')));
    remove(folder);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  process.on('exit', onExit);

  const close = async () => {
    endTracked(folder, GRACE_MS);
    for (const closeOne of closers.splice(0)) await closeOne();
    for (const signal of SIGNALS) process.off(signal, interrupt);
    process.off('exit', onExit);
    remove(folder);
  };
  const onClose = (closeOne: () => Promise<void>) => closers.push(closeOne);
  return { folder, id: randomBytes(4).toString('hex'), close, onClose };
}

/** Tries for a while: what was told to end may still be writing there. */
function remove(folder: string): void {
  let failure: unknown;
  waitSync(GRACE_MS, () => {
    try {
      rmSync(folder, { recursive: true, force: true });
      failure = undefined;
    } catch (error) {
      failure = error;
    }
    return failure === undefined;
  });
  if (failure !== undefined) process.stderr.write(`${folder} can't be removed: ${failure}\n`);
}

async function isNatsServer(path: string): Promise<boolean> {
  try {
    const { stdout, stderr } = await promisify(execFile)(path, ['--version'], { timeout: PROBE_TIMEOUT_MS });
    return (stdout + stderr).includes('nats-server');
  } catch {
    return false;
  }
}

/** Whether something that speaks NATS listens there: a server's first word is INFO. */
function answers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port || 4222), timeout: PROBE_TIMEOUT_MS });
    const finish = (result: boolean) => {
      socket.destroy();
      resolve(result);
    };
    socket.once('data', (data) => finish(data.toString().startsWith('INFO ')));
    socket.once('timeout', () => finish(false));
    socket.once('error', () => finish(false));
    socket.once('close', () => finish(false));
  });
}
