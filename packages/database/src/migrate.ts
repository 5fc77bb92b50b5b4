import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Kysely, type Migration, type MigrationProvider, Migrator, sql } from 'kysely';
import { checkConnection, createDb, type Database, type Tx } from './createDb.ts';
import { requiredMigration } from './expandOnly.ts';

const MIGRATIONS = new URL('../migrations/', import.meta.url);
/** Altering a large table takes longer than any query of a service. */
const STATEMENT_TIMEOUT_MS = 3_600_000;

/**
 * The applied migrations. Not Kysely's own table: release 0.1.0 reads that one, and runs on no schema that has a migration which it
 * does not know (docs/adr/0055).
 */
const MIGRATION_TABLE = 'schema_migrations';
const MIGRATION_LOCK_TABLE = 'schema_migrations_lock';
/** The newest migration of release 0.1.0. */
const LAST_OF_0_1_0 = '0017-oidc-callers';
/** Kysely's own, so that no release of any age migrates meanwhile. */
const KYSELY_LOCK_ID = '3853314791062309107';

/** Postgres ended a transaction because it and another one waited for each other. */
const DEADLOCK = '40P01';
const MAX_TRIES = 10;
const PAUSE_MS = 200;

/**
 * Migrates the schema to this release, under load too: the apps lock tables in another order than the migrations, so that Postgres
 * may have to roll back either. What was rolled back is tried again. Does nothing if a newer release migrated it and this one may run on it. Safe when several
 * processes start at once. Returns the names of the applied migrations.
 */
export async function migrate(db: Database, folder: URL = MIGRATIONS): Promise<string[]> {
  for (let tries = 1; ; tries++) {
    try {
      return await migrateOnce(db, folder);
    } catch (error) {
      if (tries === MAX_TRIES || !isDeadlock(error)) throw error;
      await sleep(tries * PAUSE_MS);
    }
  }
}

function isDeadlock(error: unknown): boolean {
  const { code, cause } = error as { readonly code?: string; readonly cause?: { readonly code?: string } };
  return code === DEADLOCK || cause?.code === DEADLOCK;
}

async function migrateOnce(db: Database, folder: URL): Promise<string[]> {
  await db.transaction().execute(separateRecords);
  const { newer, unknown, missing } = await compareSchema(db, folder);
  if (newer) throw new Error(`This release cannot use the database: ${newer}`);
  if (unknown.length > 0) {
    if (missing.length === 0) return [];
    throw new Error(
      `The schema has the migration ${unknown.at(-1)}, which this release does not know, and lacks ${missing[0]}. ` +
        'Migrate it by a release that has both.',
    );
  }
  const migrator = new Migrator({
    db,
    provider: sqlFiles(folder),
    migrationTableName: MIGRATION_TABLE,
    migrationLockTableName: MIGRATION_LOCK_TABLE,
    // They only expand, so their order does not matter, and a patch of an older release may have one of its own.
    allowUnorderedMigrations: true,
  });
  const { error, results = [] } = await migrator.migrateToLatest();
  if (error) {
    const failed = results.find((result) => result.status === 'Error');
    throw new Error(`Migration ${failed?.migrationName ?? 'of the database'} failed and was rolled back.`, {
      cause: error,
    });
  }
  await db.transaction().execute(recordFor010);
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

/** Why this release can't run on the schema, as a message for operators; undefined if it can. */
export async function schemaMismatch(db: Database, folder: URL = MIGRATIONS): Promise<string | undefined> {
  const { newer, missing } = await compareSchema(db, folder);
  if (newer || missing.length === 0) return newer;
  return `the schema lacks the migration ${missing[0]}; run \`weighbridge migrate\` or start the control plane first`;
}

interface Comparison {
  /** Set if a contract migration took away what this release uses. */
  readonly newer: string | undefined;
  readonly unknown: readonly string[];
  readonly missing: readonly string[];
}

async function compareSchema(db: Database, folder: URL): Promise<Comparison> {
  const known = await migrationNames(folder);
  const applied = await appliedMigrations(db);
  const requirement = (await schemaRequirements(db)).find(({ migration }) => !known.includes(migration));
  return {
    newer:
      requirement &&
      `the schema is newer than this release: since the migration ${requirement.requiredBy} it serves only releases that have ` +
        `the migration ${requirement.migration}. Use one of these, or restore the database from before`,
    unknown: applied.filter((name) => !known.includes(name)),
    missing: known.filter((name) => !applied.includes(name)),
  };
}

function sqlFiles(folder: URL): MigrationProvider {
  return {
    async getMigrations() {
      const migrations: Record<string, Migration> = {};
      for (const name of await migrationNames(folder)) {
        const text = await readFile(new URL(`${name}.sql`, folder), 'utf8');
        migrations[name] = { up: (db: Kysely<unknown>) => apply(db, name, text) };
      }
      return migrations;
    },
  };
}

async function apply(db: Kysely<unknown>, name: string, text: string): Promise<void> {
  await sql.raw(text).execute(db);
  const required = requiredMigration(text);
  if (required === undefined) return;
  await sql`INSERT INTO schema_requirements (migration, required_by) VALUES (${required}, ${name})
    ON CONFLICT DO NOTHING`.execute(db);
}

async function migrationNames(folder: URL): Promise<string[]> {
  const files = await readdir(folder);
  return files
    .filter((file) => file.endsWith('.sql'))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort();
}

/** Moves the records of a database that an earlier release migrated, and leaves release 0.1.0 those that it knows. */
async function separateRecords(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${KYSELY_LOCK_ID}::bigint)`.execute(tx);
  if ((await tableExists(tx, MIGRATION_TABLE)) || !(await tableExists(tx, 'kysely_migration'))) return;
  await sql`CREATE TABLE ${sql.table(MIGRATION_TABLE)} (name varchar(255) PRIMARY KEY, timestamp varchar(255) NOT NULL)`.execute(
    tx,
  );
  await sql`INSERT INTO ${sql.table(MIGRATION_TABLE)} SELECT name, timestamp FROM kysely_migration`.execute(
    tx,
  );
  await sql`DELETE FROM kysely_migration WHERE name > ${LAST_OF_0_1_0}`.execute(tx);
}

/** What release 0.1.0 finds: its own migrations, and the first one that it would have to know, if it may not run. */
async function recordFor010(tx: Tx): Promise<void> {
  await sql`SELECT pg_advisory_xact_lock(${KYSELY_LOCK_ID}::bigint)`.execute(tx);
  await sql`CREATE TABLE IF NOT EXISTS kysely_migration (name varchar(255) PRIMARY KEY, timestamp varchar(255) NOT NULL)`.execute(
    tx,
  );
  const requirement = (await schemaRequirements(tx)).find(({ migration }) => migration > LAST_OF_0_1_0);
  await sql`INSERT INTO kysely_migration SELECT name, timestamp FROM ${sql.table(MIGRATION_TABLE)}
    WHERE name <= ${LAST_OF_0_1_0} OR name = ${requirement?.migration ?? ''}
    ON CONFLICT DO NOTHING`.execute(tx);
}

async function appliedMigrations(db: Database): Promise<string[]> {
  const tables = [MIGRATION_TABLE, 'kysely_migration'];
  for (const table of tables) {
    if (!(await tableExists(db, table))) continue;
    const { rows } = await sql<{ name: string }>`SELECT name FROM ${sql.table(table)} ORDER BY name`.execute(
      db,
    );
    return rows.map((row) => row.name);
  }
  return [];
}

/** The migrations that a release must have to run on this schema, each with the contract migration that says so. */
async function schemaRequirements(
  db: Database | Tx,
): Promise<readonly { readonly migration: string; readonly requiredBy: string }[]> {
  if (!(await tableExists(db, 'schema_requirements'))) return [];
  const { rows } = await sql<{ migration: string; requiredBy: string }>`
    SELECT migration, required_by AS "requiredBy" FROM schema_requirements ORDER BY migration`.execute(db);
  return rows;
}

/** Not by `to_regclass`: while a transaction waits for a lock, it may go on answering from a cache that another one outdated. */
async function tableExists(db: Database | Tx, table: string): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    SELECT EXISTS (
      SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = current_schema() AND relname = ${table}
    ) AS found`.execute(db);
  return rows[0]?.found === true;
}
