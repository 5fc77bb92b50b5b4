import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import pg from 'pg';
import type { DB } from './tables.ts';

export type Database = Kysely<DB>;

/** A transaction in progress. Whatever takes a Database also takes one; a function that asks for one must be inside. */
export type Tx = Transaction<DB>;

export interface DatabaseOptions {
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly maxConnections?: number;
  /** How long one statement may take. Default 30 s. */
  readonly statementTimeoutMs?: number;
  /** An idle connection broke, for instance because Postgres restarted. The pool replaces it. */
  readonly onIdleError: (error: Error) => void;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** No query of ours is meant to take longer; a stuck one must not hold a connection for good. */
const STATEMENT_TIMEOUT_MS = 30_000;
const INT8_OID = 20;

/** A pool of connections. `bigint` columns are read as BigInt: money must not pass through a float. */
export function createDb(databaseUrl: string, options: DatabaseOptions): Database {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    application_name: options.applicationName,
    max: options.maxConnections ?? 10,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: options.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS,
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        oid === INT8_OID ? (text: string) => BigInt(text) : pg.types.getTypeParser(oid, format as 'text'),
    },
  });
  // A connection that breaks inside a transaction, between two queries, tells it by this event, and then by the next
  // query's rejection. Without a listener the event would end the process.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', (error) => {
    // While the pool is closing, a server that closes first is no news.
    if (pool.ending) return;
    // pg hangs the whole connection on the error: nothing that belongs in a log.
    options.onIdleError(new Error(error.message));
  });
  return new Kysely<DB>({ dialect: new PostgresDialect({ pool }) });
}

/** Rejects, in words for an operator, where the database can't be reached or does not let us in. */
export async function checkConnection(db: Database): Promise<void> {
  try {
    await sql`SELECT 1`.execute(db);
  } catch (error) {
    throw new Error('The database does not answer. Check DATABASE_URL', { cause: error });
  }
}
