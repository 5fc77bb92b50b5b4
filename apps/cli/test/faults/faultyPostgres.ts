import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type LocalPostgres, startLocalPostgres } from '@weighbridge/local-postgres';
import { eventually, freePort, testRun } from '@weighbridge/testing';
import pg from 'pg';

/** A Postgres that may be restarted under the apps, with the same port and all committed data. */
export interface FaultyPostgres {
  readonly url: string;
  /** An orderly restart: it aborts open transactions. */
  restart(): Promise<void>;
  /** Blocks every writer of existing buckets in the middle of its transaction, until the returned function is called. */
  holdBuckets(): Promise<() => Promise<void>>;
  /** The number of blocked writers; default: those of metering. */
  waitingWriters(applicationName?: string): Promise<number>;
  /** Kills the backend of a blocked writer; Postgres then ends all others and recovers. */
  crashWriter(): Promise<void>;
  close(): Promise<void>;
}

export async function startFaultyPostgres(): Promise<FaultyPostgres> {
  const dataDir = join(testRun().folder, `postgres-${randomUUID()}`);
  const port = await freePort();
  // A commit is written before it is confirmed: a killed server must not lose one, only a power failure could.
  const settings = { port: String(port), fsync: 'off', max_connections: '200' };
  const start = () => startLocalPostgres({ dataDir, settings });
  let server: LocalPostgres = await start();
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
      { timeoutMs: 20_000, intervalMs: 100 },
    );
  }
  async function waiting(applicationName = 'weighbridge-metering'): Promise<number[]> {
    const client = await connect();
    const { rows } = await client.query<{ pid: number }>(WAITING, [applicationName]);
    await client.end();
    return rows.map(({ pid }) => pid);
  }

  return {
    url: url.href,
    async holdBuckets() {
      const client = await connect();
      // In the same order as every writer. Those who wait for a row get it in turn.
      await client.query('BEGIN');
      await client.query('SELECT FROM spend_buckets ORDER BY bucket_key COLLATE "C" FOR UPDATE');
      return () => client.end().catch(() => {});
    },
    async waitingWriters(applicationName) {
      return (await waiting(applicationName)).length;
    },
    async crashWriter() {
      const [pid] = await waiting();
      if (pid === undefined) throw new Error('no writer waits');
      process.kill(pid, 'SIGKILL');
    },
    async restart() {
      await server.stop();
      server = await start();
    },
    close: () => server.stop(),
  };
}
