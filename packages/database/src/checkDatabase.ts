import { sql } from 'kysely';
import { checkConnection, createDb, type Database } from './createDb.ts';
import { schemaMismatch } from './migrate.ts';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const INSUFFICIENT_PRIVILEGE = '42501';

/** What there is to know of a database before a service works on it. */
export interface DatabaseStatus {
  /** Such as `18.1`. */
  readonly version: string;
  /** A standby, or a session that may not write. */
  readonly isReadOnly: boolean;
  /** What is wrong with the schema for this release, in words; undefined where it fits. */
  readonly schemaMismatch: string | undefined;
  /** Whether this user may look which schema it is. */
  readonly isSchemaReadable: boolean;
  /** Tables of the schema that this user may not read and write. */
  readonly lacking: readonly string[];
  /** Whether it may make tables: a migration does, and metering, which makes the ledger's partitions. */
  readonly mayCreate: boolean;
  /** Whether it owns the ledger, as whoever adds partitions to it must; undefined where there is none yet. */
  readonly ownsLedger: boolean | undefined;
  /** Of its clock. */
  readonly now: Date;
}

/** Looks at a database, and changes nothing. Rejects, in words for an operator, where it can't be reached. */
export async function checkDatabase(databaseUrl: string): Promise<DatabaseStatus> {
  const db = createDb(databaseUrl, {
    applicationName: 'weighbridge-doctor',
    maxConnections: 1,
    onIdleError: () => {},
  });
  try {
    await checkConnection(db);
    const { rows } = await sql<Omit<DatabaseStatus, 'schemaMismatch' | 'isSchemaReadable' | 'lacking'>>`
      SELECT current_setting('server_version') AS version,
        pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS "isReadOnly",
        coalesce(has_schema_privilege(current_schema(), 'CREATE'), false) AS "mayCreate",
        (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('usage_events')) AS "ownsLedger",
        clock_timestamp() AS now`.execute(db);
    const [facts] = rows;
    if (!facts) throw new Error('a query without FROM answered no row');
    return {
      ...facts,
      ownsLedger: facts.ownsLedger ?? undefined,
      lacking: await tablesLacking(db),
      ...(await schemaOf(db)),
    };
  } finally {
    await db.destroy();
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

async function tablesLacking(db: Database): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    SELECT relname AS name FROM pg_class
    WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p') AND NOT relispartition
      -- Each of them: a list of privileges asks for any.
      AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
        AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
    ORDER BY relname`.execute(db);
  return rows.map(({ name }) => name);
}
