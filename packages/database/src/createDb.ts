import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import pg from 'pg';
import { preparingPool } from './preparingPool.ts';
import type { DB } from './tables.ts';

export type Database = Kysely<DB>;

/** A transaction in progress. A function that takes a Database also takes a Tx; one that takes a Tx must run in a transaction. */
export type Tx = Transaction<DB>;

export interface DatabaseOptions {
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly maxConnections?: number;
  /** The timeout of a statement. Default: 30 s. */
  readonly statementTimeoutMs?: number;
  /** Its statements are short and few, and are prepared. */
  readonly prepares?: boolean;
  /** Called when an idle connection breaks, for instance because Postgres restarts. The pool replaces the connection. */
  readonly onIdleError: (error: Error) => void;
}

const CONNECT_TIMEOUT_MS = 5_000;
/** No query takes longer by design, and a stuck one must not hold its connection forever. */
const STATEMENT_TIMEOUT_MS = 30_000;
const INT8_OID = 20;

/** A connection pool. `bigint` columns are read as BigInt: money must not pass through a float. */
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
  // A connection that breaks between two queries of a transaction emits this event, which ends the process without a
  // listener. The next query rejects.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', (error) => {
    // While the pool closes, the server may close first.
    if (pool.ending) return;
    // pg attaches the connection to the error, which must not be logged.
    options.onIdleError(new Error(error.message));
  });
  return new Kysely<DB>({
    dialect: new PostgresDialect({ pool: options.prepares ? preparingPool(pool) : pool }),
  });
}

/** Rejects, with a message for operators, if the database is unreachable or refuses the connection. */
export async function checkConnection(db: Database): Promise<void> {
  try {
    await sql`SELECT 1`.execute(db);
  } catch (error) {
    throw new Error('Database unavailable. Check DATABASE_URL', { cause: error });
  }
}
