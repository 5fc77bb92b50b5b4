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

/** Whoever holds a row for longer has the right of way: a unit gives up before Postgres would end one of the two. */
const LOCK_TIMEOUT_MS = 500;

/** Writes what the steps of a transaction left for its end, all at once and in their order. */
export type AtEnd<T> = (tx: Tx, items: readonly T[]) => Promise<void>;

/** Many changes in one transaction, each made by code that opens a transaction itself. */
export interface UnitOfWork {
  /** For the code that makes the changes. Its transactions are parts of the unit's; outside of a unit it can't be used. */
  readonly db: Database;
  /**
   * Runs `work`, and commits if it resolves with `isKept`. Only one unit may run at a time. Without `hasSavepoints` no step can be
   * undone by itself: the work has to end, and not be kept, after the first that fails.
   */
  run<T>(options: { readonly hasSavepoints: boolean }, work: Work<T>): Promise<T>;
}

type Work<T> = (unit: RunningUnit) => Promise<{ readonly result: T; readonly isKept: boolean }>;

export interface RunningUnit {
  readonly tx: Tx;
  /** Runs a step, and undoes it if it resolves with false or rejects. Resolves with whether it was kept. */
  attempt(step: () => Promise<boolean>): Promise<boolean>;
  /** What the steps left for the end of the transaction, without the first `from` of all that they left. */
  left<T>(write: AtEnd<T>, from?: number): readonly T[];
  /** How much the steps left. */
  leftCount(): number;
  /** Checks what the steps left to check (`checkAtEnd`). */
  check(): Promise<void>;
}

/** Whether a transaction is a part of a unit of work. */
export function isInUnit(tx: Tx): boolean {
  return tx.getExecutor().adapter instanceof UnitAdapter;
}

/**
 * Writes `items` at the end of the transaction: at once in a transaction of its own, which ends after it. Steps of a unit leave them,
 * so that locks that others wait for are held only while the unit ends.
 */
export async function atEnd<T>(tx: Tx, write: AtEnd<T>, items: readonly T[]): Promise<void> {
  const { adapter } = tx.getExecutor();
  if (!(adapter instanceof UnitAdapter)) return await write(tx, items);
  adapter.leave(write as AtEnd<unknown>, items);
}

/**
 * Checks what a transaction must not break: at once in a transaction of its own, and where a step that breaks it can be undone by
 * itself. Other units check it once, after their last step: only then does it matter.
 */
export async function checkAtEnd(tx: Tx, check: (tx: Tx) => Promise<void>): Promise<void> {
  const { adapter } = tx.getExecutor();
  if (!(adapter instanceof UnitAdapter && adapter.leaveCheck(check))) await check(tx);
}

export function createUnitOfWork(db: Database): UnitOfWork {
  const driver = new UnitDriver();
  return {
    db: new Kysely<DB>({
      dialect: {
        createAdapter: () => new UnitAdapter(driver),
        createDriver: () => driver,
        createIntrospector: (kysely) => new PostgresIntrospector(kysely),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    }),
    async run({ hasSavepoints }, work) {
      try {
        return await db.transaction().execute(async (tx) => {
          await setLockTimeout(tx, LOCK_TIMEOUT_MS);
          driver.start(tx, hasSavepoints);
          const { result, isKept } = await work({
            tx,
            attempt: (step) => driver.attempt(step),
            left: (write, from) => driver.left(write, from),
            leftCount: () => driver.leftCount,
            check: () => driver.check(),
          });
          if (isKept && driver.isBroken) throw new Error('a step failed that can not be undone by itself');
          if (!isKept) throw new Undone(result);
          return result;
        });
      } catch (error) {
        if (error instanceof Undone) return error.result;
        throw error;
      } finally {
        driver.end();
      }
    },
  };
}

/** Waits for locks longer than the rest of a unit does. It rejects with a lock time-out (`isLockTimeout`). */
export async function withLockTimeout(tx: Tx, timeoutMs: number, work: () => Promise<void>): Promise<void> {
  await setLockTimeout(tx, timeoutMs);
  await work();
  await setLockTimeout(tx, LOCK_TIMEOUT_MS);
}

async function setLockTimeout(tx: Tx, timeoutMs: number): Promise<void> {
  await sql`SELECT set_config('lock_timeout', ${String(timeoutMs)}, true)`.execute(tx);
}

/** Rolls back, with a result. */
class Undone {
  // biome-ignore lint/suspicious/noExplicitAny: `run` knows its type.
  readonly result: any;

  constructor(result: unknown) {
    this.result = result;
  }
}

/** How a transaction knows its unit: Kysely gives every transaction the adapter of its database. */
class UnitAdapter extends PostgresAdapter {
  readonly #driver: UnitDriver;

  constructor(driver: UnitDriver) {
    super();
    this.#driver = driver;
  }

  leave(write: AtEnd<unknown>, items: readonly unknown[]): void {
    this.#driver.leave(write, items);
  }

  /** False: it has to be checked now. */
  leaveCheck(check: (tx: Tx) => Promise<void>): boolean {
    return this.#driver.leaveCheck(check);
  }
}

interface Left {
  readonly write: AtEnd<unknown>;
  readonly item: unknown;
}

/** A driver whose only connection is the transaction of a unit. A transaction within is a savepoint. */
class UnitDriver implements Driver {
  /** A step failed, and no savepoint keeps the transaction from what it left. */
  isBroken = false;
  #tx: Tx | undefined;
  #hasSavepoints = true;
  #left: Left[] = [];
  readonly #checks = new Set<(tx: Tx) => Promise<void>>();
  /** For each open transaction, how much was left when it began. */
  readonly #open: number[] = [];
  readonly #connection: DatabaseConnection = {
    executeQuery: (query) => this.#running.executeQuery(query as CompiledQuery<never>),
    streamQuery: () => {
      throw new Error('a unit of work streams no rows');
    },
  };

  start(tx: Tx, hasSavepoints: boolean): void {
    this.#tx = tx;
    this.#hasSavepoints = hasSavepoints;
  }

  end(): void {
    this.#tx = undefined;
    this.isBroken = false;
    this.#left = [];
    this.#checks.clear();
    this.#open.length = 0;
  }

  leaveCheck(check: (tx: Tx) => Promise<void>): boolean {
    if (!this.#hasSavepoints) this.#checks.add(check);
    return !this.#hasSavepoints;
  }

  async check(): Promise<void> {
    for (const check of this.#checks) await check(this.#running);
  }

  leave(write: AtEnd<unknown>, items: readonly unknown[]): void {
    for (const item of items) this.#left.push({ write, item });
  }

  left<T>(write: AtEnd<T>, from = 0): readonly T[] {
    const left = from === 0 ? this.#left : this.#left.slice(from);
    return left.filter((one) => one.write === write).map(({ item }) => item as T);
  }

  get leftCount(): number {
    return this.#left.length;
  }

  async attempt(step: () => Promise<boolean>): Promise<boolean> {
    await this.beginTransaction();
    let isKept = false;
    try {
      isKept = await step();
    } finally {
      await (isKept ? this.commitTransaction() : this.rollbackTransaction());
    }
    return isKept && !this.isBroken;
  }

  async beginTransaction(): Promise<void> {
    this.#open.push(this.#left.length);
    await this.#run(sql`SAVEPOINT ${this.#savepoint()}`);
  }

  async commitTransaction(): Promise<void> {
    const savepoint = this.#savepoint();
    this.#open.pop();
    await this.#run(sql`RELEASE SAVEPOINT ${savepoint}`);
  }

  async rollbackTransaction(): Promise<void> {
    this.#left.length = this.#open.at(-1) ?? 0;
    this.isBroken ||= !this.#hasSavepoints;
    await this.#run(sql`ROLLBACK TO SAVEPOINT ${this.#savepoint()}`);
    await this.commitTransaction();
  }

  async init(): Promise<void> {}
  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }
  async releaseConnection(): Promise<void> {}
  async destroy(): Promise<void> {}

  get #running(): Tx {
    if (!this.#tx) throw new Error('no unit of work is running');
    return this.#tx;
  }

  #savepoint(): RawBuilder<unknown> {
    return sql.id(`unit_${this.#open.length}`);
  }

  async #run(statement: RawBuilder<unknown>): Promise<void> {
    if (this.#hasSavepoints) await statement.execute(this.#running);
  }
}
