import { sql } from 'kysely';
import pg from 'pg';
import { checkConnection, createDb, type Database } from './createDb.ts';
import { schemaMismatch } from './migrate.ts';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const INSUFFICIENT_PRIVILEGE = '42501';
const CONNECT_TIMEOUT_MS = 5_000;

/** The state of a database, checked before a service uses it. */
export interface DatabaseStatus {
  /** Such as `18.1`. */
  readonly version: string;
  /** A standby, or a session that may not write. */
  readonly isReadOnly: boolean;
  /** Something between, such as PgBouncer, answers in Postgres' place. */
  readonly isPooled: boolean;
  /** Why the schema does not fit this release; undefined if it fits. */
  readonly schemaMismatch: string | undefined;
  /** Whether the user may read which migrations were applied. */
  readonly isSchemaReadable: boolean;
  /** Tables that the user lacks a read or write privilege on. */
  readonly inaccessibleTables: readonly string[];
  /** Whether the user may number new rows. */
  readonly mayUseSequences: boolean;
  /** Whether the user may make temporary tables, as metering does. */
  readonly mayMakeTemporary: boolean;
  /** Whether the user may create and drop the months of the ledger; undefined if there is none yet. */
  readonly mayKeepMonths: boolean | undefined;
  /** For how long the oldest spend has waited for metering to merge it into its counters; undefined if that can't be read. */
  readonly unmergedMs: number | undefined;
  /** The database's clock. */
  readonly now: Date;
}

/** Checks a database without changing it. Rejects, with a message for operators, if it is unreachable. */
export async function checkDatabase(databaseUrl: string): Promise<DatabaseStatus> {
  const db = createDb(databaseUrl, {
    applicationName: 'weighbridge-doctor',
    maxConnections: 1,
    onIdleError: () => {},
  });
  try {
    await checkConnection(db);
    const { rows } = await sql<
      Omit<
        DatabaseStatus,
        'schemaMismatch' | 'isSchemaReadable' | 'inaccessibleTables' | 'isPooled' | 'unmergedMs'
      >
    >`
      SELECT current_setting('server_version') AS version,
        pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS "isReadOnly",
        has_database_privilege(current_database(), 'TEMPORARY') AS "mayMakeTemporary",
        NOT EXISTS (
          SELECT FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())
          -- The function accepts nothing but sequences, and conditions have no order.
          AND CASE relkind WHEN 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') ELSE false END
        ) AS "mayUseSequences",
        has_function_privilege(to_regprocedure('create_usage_partition(timestamptz)')::oid, 'EXECUTE')
          AND has_function_privilege(to_regprocedure('drop_usage_partition(timestamptz)')::oid, 'EXECUTE') AS "mayKeepMonths",
        clock_timestamp() AS now`.execute(db);
    const [status] = rows;
    if (!status) throw new Error('a query without FROM returned no row');
    const [inaccessibleTables, schema] = [await findInaccessibleTables(db), await schemaOf(db)];
    const fits = schema.isSchemaReadable && schema.schemaMismatch === undefined;
    return {
      ...status,
      isPooled: await isPooled(databaseUrl),
      mayKeepMonths: status.mayKeepMonths ?? undefined,
      inaccessibleTables,
      ...schema,
      unmergedMs: fits && inaccessibleTables.length === 0 ? await readUnmergedMs(db) : undefined,
    };
  } finally {
    await db.destroy();
  }
}

async function readUnmergedMs(db: Database): Promise<number> {
  const { rows } = await sql<{ ms: number | null }>`
    SELECT (extract(epoch FROM clock_timestamp() - min(appended_at)) * 1000)::float8 AS ms FROM appended_spend`.execute(
    db,
  );
  return rows[0]?.ms ?? 0;
}

/** A pooler gives clients process ids of its own, since a client may get another process for each transaction. */
async function isPooled(databaseUrl: string): Promise<boolean> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'weighbridge-doctor',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  try {
    await client.connect();
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    // Not in the driver's types.
    const { processID } = client as unknown as { readonly processID: number | null };
    return processID !== null && processID !== rows[0]?.pid;
  } finally {
    await client.end().catch(() => {});
  }
}

async function schemaOf(db: Database): Promise<Pick<DatabaseStatus, 'schemaMismatch' | 'isSchemaReadable'>> {
  try {
    return { schemaMismatch: await schemaMismatch(db), isSchemaReadable: true };
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== INSUFFICIENT_PRIVILEGE) throw error;
    return { schemaMismatch: undefined, isSchemaReadable: false };
  }
}

async function findInaccessibleTables(db: Database): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    SELECT relname AS name FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') AND NOT relispartition
      -- One call per privilege: given a list, the function checks for any of them.
      AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
    ORDER BY relname`.execute(db);
  return rows.map(({ name }) => name);
}
