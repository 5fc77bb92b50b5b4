import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely';
import type { Database, Tx } from './createDb.ts';
import type { DB } from './tables.ts';

/** Whoever holds a row for longer has the right of way: a rehearsal gives up before Postgres would end one of the two. */
const LOCK_TIMEOUT_MS = 500;

/** An SQL expression: the statement runs in a rehearsal, which is rolled back. */
export const IN_REHEARSAL = sql<boolean>`(coalesce(current_setting('weighbridge.rehearsal', true), '') = 'on')`;

/** Makes changes in one transaction that is always rolled back, to learn whether they would succeed. */
export interface Rehearsal {
  /** For the code that makes the changes. Its transactions are savepoints of the rehearsal; outside of one it can't be used. */
  readonly db: Database;
  /**
   * Runs `work`. Only one rehearsal may run at a time. `attempt` runs a step of it, and undoes the step if that resolves to
   * false or rejects.
   */
  run<T>(work: (attempt: (step: () => Promise<boolean>) => Promise<void>) => Promise<T>): Promise<T>;
}

export function createRehearsal(db: Database): Rehearsal {
  const driver = new SavepointDriver();
  return {
    db: new Kysely<DB>({
      dialect: {
        createAdapter: () => new PostgresAdapter(),
        createDriver: () => driver,
        createIntrospector: (kysely) => new PostgresIntrospector(kysely),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    }),
    async run(work) {
      const tx = await db.startTransaction().execute();
      try {
        await sql`SELECT set_config('weighbridge.rehearsal', 'on', true),
          set_config('lock_timeout', ${String(LOCK_TIMEOUT_MS)}, true)`.execute(tx);
        driver.tx = tx;
        return await work((step) => driver.attempt(step));
      } finally {
        driver.tx = undefined;
        await tx.rollback().execute();
      }
    },
  };
}

/** A driver whose only connection is a transaction in progress. */
class SavepointDriver implements Driver {
  tx: Tx | undefined;
  #depth = 0;
  readonly #connection: DatabaseConnection = {
    executeQuery: (query) => this.#running.executeQuery(query as CompiledQuery<never>),
    streamQuery: () => {
      throw new Error('a rehearsal streams no rows');
    },
  };

  async attempt(step: () => Promise<boolean>): Promise<void> {
    await this.beginTransaction();
    let isKept = false;
    try {
      isKept = await step();
    } finally {
      await (isKept ? this.commitTransaction() : this.rollbackTransaction());
    }
  }

  async beginTransaction(): Promise<void> {
    await this.#run(sql`SAVEPOINT ${savepoint(++this.#depth)}`);
  }

  async commitTransaction(): Promise<void> {
    await this.#run(sql`RELEASE SAVEPOINT ${savepoint(this.#depth--)}`);
  }

  async rollbackTransaction(): Promise<void> {
    await this.#run(sql`ROLLBACK TO SAVEPOINT ${savepoint(this.#depth)}`);
    await this.commitTransaction();
  }

  async init(): Promise<void> {}
  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }
  async releaseConnection(): Promise<void> {}
  async destroy(): Promise<void> {}

  get #running(): Tx {
    if (!this.tx) throw new Error('no rehearsal is running');
    return this.tx;
  }

  async #run(statement: RawBuilder<unknown>): Promise<void> {
    await statement.execute(this.#running);
  }
}

function savepoint(depth: number): RawBuilder<unknown> {
  return sql.id(`rehearsal_${depth}`);
}
