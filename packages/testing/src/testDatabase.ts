import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDb, type Database } from '@weighbridge/database';
import { afterAll, beforeAll } from 'vitest';
import { databasePrefix, databaseUrl, withClient } from './postgresClient.ts';
import { type TestRun, testRun } from './testRun.ts';

const CLONE_TIMEOUT_MS = 20_000;
const OBJECT_IN_USE = '55006';

export interface TestDatabase {
  /** `postgresql://…`, with the latest schema and without rows. */
  readonly url: string;
  /** A connection pool. It connects on the first query. */
  readonly db: Database;
  /** Closes the pool and drops the database, terminating remaining connections. */
  drop(): Promise<void>;
}

export interface TestDatabaseOptions {
  /** Size of the pool `db`. */
  readonly maxConnections?: number;
}

/** Clones a database from the run's template. The test that creates it drops it. */
export const createTestDatabase = (
  run: TestRun = testRun(),
  options: TestDatabaseOptions = {},
): Promise<TestDatabase> => clone(run, run.postgres.template, options);

/** Creates an empty database, without the schema. */
export const createEmptyDatabase = (run: TestRun = testRun()): Promise<TestDatabase> =>
  clone(run, 'template0', {});

/** Creates a database before the first test of a file or `describe` and drops it after the last. */
export function useDatabase(options: TestDatabaseOptions = {}): Pick<TestDatabase, 'url' | 'db'> {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createTestDatabase(testRun(), options);
  });
  afterAll(() => database?.drop());
  return {
    get url() {
      return database.url;
    },
    get db() {
      return database.db;
    },
  };
}

/** A test's own transactions may wait for a CPU for as long as a busy machine makes them. Apps that are given the URL may not. */
function withLongPauses(url: string): string {
  const long = new URL(url);
  long.searchParams.set('options', '-c weighbridge.max_pause_ms=600000');
  return long.href;
}

async function clone(
  { id, postgres }: TestRun,
  template: string,
  options: TestDatabaseOptions,
): Promise<TestDatabase> {
  const name = databasePrefix(id) + randomBytes(6).toString('hex');
  await withClient(postgres.adminUrl, async (client) => {
    for (const deadline = Date.now() + CLONE_TIMEOUT_MS; ; await sleep(50)) {
      try {
        return await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      } catch (error) {
        // The template is in use at the moment, by autovacuum or another clone.
        const isTransient = error instanceof Error && 'code' in error && error.code === OBJECT_IN_USE;
        if (!isTransient || Date.now() > deadline) throw error;
      }
    }
  });
  const url = databaseUrl(postgres.adminUrl, name);
  const db = createDb(withLongPauses(url), { applicationName: 'test', onIdleError: () => {}, ...options });
  return {
    url,
    db,
    async drop() {
      await db.destroy();
      await withClient(postgres.adminUrl, async (client) => {
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      });
    },
  };
}
