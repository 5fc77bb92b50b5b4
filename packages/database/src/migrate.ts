import { readdir, readFile } from 'node:fs/promises';
import { type Kysely, type Migration, type MigrationProvider, Migrator, sql } from 'kysely';
import { checkConnection, createDb, type Database } from './createDb.ts';

const MIGRATIONS = new URL('../migrations/', import.meta.url);
/** Altering a large table takes longer than any query of a service. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

/** Migrates the schema to this release. Safe when several processes start at once. Returns the names of the applied migrations. */
export async function migrate(db: Database): Promise<string[]> {
  const { newer } = await compareSchema(db);
  if (newer) throw new Error(`This release cannot use the database: ${newer}`);
  const migrator = new Migrator({ db, provider: sqlFiles });
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error) {
    const failed = results.find((result) => result.status === 'Error');
    throw new Error(`Migration ${failed?.migrationName ?? 'of the database'} failed and was rolled back.`, {
      cause: error,
    });
  }
  return results.map((result) => result.migrationName);
}

/** As `migrate`, for callers that have only a URL. */
export async function migrateToLatest(databaseUrl: string): Promise<string[]> {
  const db = createDb(databaseUrl, {
    applicationName: 'weighbridge-migrate',
    maxConnections: 1,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    onIdleError: () => {},
  });
  try {
    await checkConnection(db);
    return await migrate(db);
  } finally {
    await db.destroy();
  }
}

/** Why the schema does not fit this release, as a message for operators; undefined if it fits. */
export async function schemaMismatch(db: Database): Promise<string | undefined> {
  const { newer, older } = await compareSchema(db);
  return newer ?? older;
}

async function compareSchema(db: Database): Promise<{ newer?: string; older?: string }> {
  const known = await migrationNames();
  const applied = await appliedMigrations(db);
  const missing = known.filter((name) => !applied.includes(name));
  const unknown = applied.filter((name) => !known.includes(name));
  return {
    ...(unknown.length > 0 && {
      newer: `the schema is newer than this release: it has the migration ${unknown.at(-1)}`,
    }),
    ...(missing.length > 0 && {
      older: `the schema lacks the migration ${missing[0]}; run \`weighbridge migrate\` or start the control plane first`,
    }),
  };
}

const sqlFiles: MigrationProvider = {
  async getMigrations() {
    const migrations: Record<string, Migration> = {};
    for (const name of await migrationNames()) {
      const text = await readFile(new URL(`${name}.sql`, MIGRATIONS), 'utf8');
      migrations[name] = { up: async (db: Kysely<unknown>) => void (await sql.raw(text).execute(db)) };
    }
    return migrations;
  },
};

async function migrationNames(): Promise<string[]> {
  const files = await readdir(MIGRATIONS);
  return files
    .filter((file) => file.endsWith('.sql'))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort();
}

async function appliedMigrations(db: Database): Promise<string[]> {
  const { rows: found } = await sql<{ found: boolean }>`
    SELECT to_regclass('kysely_migration') IS NOT NULL AS found`.execute(db);
  if (!found[0]?.found) return [];
  const { rows } = await sql<{ name: string }>`SELECT name FROM kysely_migration ORDER BY name`.execute(db);
  return rows.map((row) => row.name);
}
