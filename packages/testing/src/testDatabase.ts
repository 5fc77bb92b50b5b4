import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { databasePrefix, databaseUrl, withClient } from './postgresClient.ts';
import { type TestRun, testRun } from './testRun.ts';

const CLONE_TIMEOUT_MS = 20_000;
const OBJECT_IN_USE = '55006';

export interface TestDatabase {
  /** `postgresql://…`, with the latest schema and nothing in it. */
  readonly url: string;
  /** Drops it, ending whatever is still connected. */
  drop(): Promise<void>;
}

/** A database of its own for a test file, cloned from the run's template. For use in `beforeAll`. */
export const createTestDatabase = (run: TestRun = testRun()): Promise<TestDatabase> =>
  clone(run, run.postgres.template);

/** One with nothing in it, not even the schema. */
export const createEmptyDatabase = (run: TestRun = testRun()): Promise<TestDatabase> =>
  clone(run, 'template0');

async function clone({ id, postgres }: TestRun, template: string): Promise<TestDatabase> {
  const name = databasePrefix(id) + randomBytes(6).toString('hex');
  await withClient(postgres.adminUrl, async (client) => {
    for (const deadline = Date.now() + CLONE_TIMEOUT_MS; ; await sleep(50)) {
      try {
        return await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      } catch (error) {
        // Something (autovacuum, another clone) is at the template just now.
        const passing = error instanceof Error && 'code' in error && error.code === OBJECT_IN_USE;
        if (!passing || Date.now() > deadline) throw error;
      }
    }
  });
  return {
    url: databaseUrl(postgres.adminUrl, name),
    drop: () =>
      withClient(postgres.adminUrl, async (client) => {
        await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
      }),
  };
}
