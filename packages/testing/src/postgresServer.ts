import { join } from 'node:path';
import { migrateToLatest } from '@weighbridge/database';
import { startLocalPostgres } from '@weighbridge/local-postgres';
import { startPostgresContainer } from './docker.ts';
import { databasePrefix, databaseUrl, withClient } from './postgresClient.ts';
import type { TestRun } from './testRun.ts';

export interface PostgresOptions {
  /** TEST_DATABASE_URL. */
  readonly givenUrl: string | undefined;
  /** Settings of a server that is started here; a given one keeps its own. */
  readonly settings: Readonly<Record<string, string>>;
  readonly runFolder: string;
  readonly runId: string;
  readonly dockerAnswers: () => Promise<boolean>;
}

/** Opens the run's Postgres (TEST_DATABASE_URL, else Docker, else a local server) and creates the migrated template. */
export async function openPostgres(
  options: PostgresOptions,
): Promise<{ postgres: TestRun['postgres']; close(): Promise<void> }> {
  const { adminUrl, stop } = await openServer(options);
  const template = `${databasePrefix(options.runId)}template`;
  const close = async () => {
    if (options.givenUrl !== undefined) await dropDatabases(adminUrl, databasePrefix(options.runId));
    await stop();
  };
  try {
    await withClient(adminUrl, (client) => client.query(`CREATE DATABASE ${template}`));
    await migrateToLatest(databaseUrl(adminUrl, template));
    // Postgres cannot clone a template that has connections.
    await withClient(adminUrl, (client) =>
      client.query(`ALTER DATABASE ${template} ALLOW_CONNECTIONS false`),
    );
    return { postgres: { adminUrl, template }, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openServer(options: PostgresOptions): Promise<{ adminUrl: string; stop(): Promise<void> }> {
  if (options.givenUrl !== undefined) return { adminUrl: options.givenUrl, stop: async () => {} };
  if (await options.dockerAnswers()) {
    try {
      return await startPostgresContainer(options.settings);
    } catch (error) {
      process.stderr.write(
        `Docker is running but cannot start Postgres (${error}); using a local Postgres.\n`,
      );
    }
  }
  const { url, stop } = await startLocalPostgres({
    dataDir: join(options.runFolder, 'postgres'),
    database: 'postgres',
    settings: options.settings,
    onExit: (detail) => process.stderr.write(`${detail}\n`),
  });
  return { adminUrl: url, stop };
}

async function dropDatabases(adminUrl: string, prefix: string): Promise<void> {
  await withClient(adminUrl, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE starts_with(datname, $1)',
      [prefix],
    );
    for (const { datname } of rows) await client.query(`DROP DATABASE IF EXISTS ${datname} WITH (FORCE)`);
  });
}
