import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LocalPostgres, startLocalPostgres } from '@weighbridge/local-postgres';
import { eventually, freePort, testRun } from '@weighbridge/testing';
import pg from 'pg';
import { Outages } from './outages.ts';
import { openArchive } from './pointInTime.ts';

/** A Postgres that may be restarted under the apps, with the same port and all committed data. */
export interface FaultyPostgres {
  readonly url: string;
  /** When it was frozen, restarted, crashed, or its writers had to wait. */
  readonly outages: Outages;
  /** Of the server and all of its processes. Linux only. */
  pids(): Promise<readonly number[]>;
  /** SIGSTOP to the server and all of its processes: connections stay open, and nothing is answered. Linux only. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** An orderly restart: it aborts open transactions. */
  restart(): Promise<void>;
  /** Blocks every writer of existing buckets in the middle of its transaction, until the returned function is called. */
  holdBuckets(): Promise<() => Promise<void>>;
  /** The number of blocked writers; default: those of metering. */
  waitingWriters(applicationName?: string): Promise<number>;
  /** Kills the backend of a blocked writer; Postgres then ends all others and recovers. */
  crashWriter(): Promise<void>;
  /** Copies the running server, which archives its log; only if it was started so. */
  backUp(): Promise<void>;
  /** As a disaster and its mending: the server is what it was at this moment after the backup. */
  restoreTo(moment: Date): Promise<void>;
  close(): Promise<void>;
}

export interface FaultyPostgresOptions {
  /** It archives its log, so that it can be restored to a point in time. */
  readonly archives?: boolean;
}

export async function startFaultyPostgres({
  archives = false,
}: FaultyPostgresOptions = {}): Promise<FaultyPostgres> {
  const dataDir = join(testRun().folder, `postgres-${randomUUID()}`);
  const port = await freePort();
  // A commit is written before it is confirmed: a killed server must not lose one, only a power failure could.
  const settings = { port: String(port), fsync: 'off', max_connections: '200' };
  const start = (more = {}) => startLocalPostgres({ dataDir, settings: { ...settings, ...more } });
  let server: LocalPostgres = await start();
  const archive = archives ? await openArchive(dataDir) : undefined;
  if (archive) {
    await server.stop();
    server = await start(archive.settings);
  }
  const outages = new Outages();
  const url = new URL(server.url);
  url.port = String(port);

  const WAITING = `SELECT pid FROM pg_stat_activity WHERE application_name = $1
    AND state = 'active' AND wait_event_type = 'Lock'`;
  /** Waits until the server has recovered. */
  function connect(): Promise<pg.Client> {
    return eventually(
      async () => {
        const client = new pg.Client({ connectionString: url.href });
        client.on('error', () => {}); // It ends with the server.
        await client.connect();
        return client;
      },
      { intervalMs: 100 },
    );
  }
  async function waiting(applicationName = 'weighbridge-metering'): Promise<number[]> {
    const client = await connect();
    const { rows } = await client.query<{ pid: number }>(WAITING, [applicationName]);
    await client.end();
    return rows.map(({ pid }) => pid);
  }

  async function signal(name: 'SIGSTOP' | 'SIGCONT'): Promise<void> {
    for (const pid of await processesOf(dataDir)) {
      try {
        process.kill(pid, name);
      } catch {
        // It has ended since it was found.
      }
    }
  }

  return {
    url: url.href,
    outages,
    async holdBuckets() {
      outages.note(true);
      const client = await connect();
      // In the same order as every writer. Those who wait for a row get it in turn.
      await client.query('BEGIN');
      await client.query('SELECT FROM spend_buckets ORDER BY bucket_key COLLATE "C" FOR UPDATE');
      return async () => {
        await client.end().catch(() => {});
        outages.note(false);
      };
    },
    async waitingWriters(applicationName) {
      return (await waiting(applicationName)).length;
    },
    async crashWriter() {
      const [pid] = await waiting();
      if (pid === undefined) throw new Error('no writer waits');
      process.kill(pid, 'SIGKILL');
    },
    pids: () => processesOf(dataDir),
    async freeze() {
      outages.note(true);
      await signal('SIGSTOP');
    },
    async thaw() {
      await signal('SIGCONT');
      outages.note(false);
    },
    async restart() {
      outages.note(true);
      await server.stop();
      server = await start(archive?.settings);
      outages.note(false);
    },
    async backUp() {
      await archive?.backUp(url.href);
    },
    async restoreTo(moment) {
      if (!archive) throw new Error('this Postgres has no archive');
      const client = await connect();
      await client.query('SELECT pg_switch_wal()');
      await client.end();
      // Its archiver ends once it has archived all.
      await server.stop();
      server = await start(await archive.putBack(moment));
      await eventually(async () => {
        const restored = await connect();
        const { rows } = await restored.query<{ is: boolean }>('SELECT pg_is_in_recovery() AS is');
        await restored.end();
        if (rows[0]?.is !== false) throw new Error('it is still in recovery');
      });
    },
    async close() {
      await server.stop();
      await archive?.remove();
    },
  };
}

/** The server's process, and those that it started. */
async function processesOf(dataDir: string): Promise<number[]> {
  const [first = ''] = (await readFile(join(dataDir, 'cluster', 'postmaster.pid'), 'utf8')).split('\n');
  const children = await readFile(`/proc/${first}/task/${first}/children`, 'utf8');
  return [first, ...children.trim().split(' ')].map(Number);
}
