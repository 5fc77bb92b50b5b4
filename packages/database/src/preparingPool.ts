import { createHash } from 'node:crypto';
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';

/** Beyond so many texts of statements, further ones are planned each time: Postgres keeps what is prepared on each connection. */
const MAX_STATEMENTS = 64;
/** The result of a prepared statement changed: a migration added a column that it selects. */
const CHANGED_RESULT = '0A000';
/**
 * A pooler in transaction mode gave the connection of the server to another client meanwhile, so the statement is not known there, or
 * is already: https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const LOST = new Set(['26000', '42P05']);

/**
 * A pool whose statements are prepared: Postgres plans each of them a few times on a connection, and then once for all values. For
 * short statements, planning takes several times as long as the rest. Behind a pooler that can't keep them, the pool goes on without.
 */
export function preparingPool(pool: pg.Pool): PostgresPool {
  const statements = new Statements();
  // Kysely knows a connection by its object.
  const clients = new WeakMap<pg.PoolClient, PostgresPoolClient>();
  return {
    connect: async () => {
      const client = await pool.connect();
      const known = clients.get(client);
      if (known) return known;
      // Without cursors, which no one opens.
      const preparing = {
        query: (text: string, values: readonly unknown[]) => statements.query(client, text, [...values]),
        release: () => client.release(),
      } as unknown as PostgresPoolClient;
      clients.set(client, preparing);
      return preparing;
    },
    end: () => pool.end(),
  };
}

class Statements {
  /** By their texts: a name always stands for the same one, in every process. */
  readonly #names = new Map<string, string>();
  /** Counts results that changed: each statement gets another name then. */
  #turn = 0;
  #isOff = false;

  async query(client: pg.PoolClient, text: string, values: unknown[]): Promise<pg.QueryResult> {
    const name = values.length > 0 ? this.#nameOf(text) : undefined;
    if (name === undefined) return await client.query(text, values);
    try {
      return await client.query({ name: `${name}_${this.#turn}`, text, values });
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      if (code === CHANGED_RESULT) this.#turn++;
      else if (LOST.has(code)) this.#isOff = true;
      else throw error;
      // It did not run. In a transaction this fails too, and the caller repeats the transaction.
      return await client.query(text, values);
    }
  }

  #nameOf(text: string): string | undefined {
    if (this.#isOff) return undefined;
    const known = this.#names.get(text);
    if (known !== undefined || this.#names.size >= MAX_STATEMENTS) return known;
    const name = `weighbridge_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
    this.#names.set(text, name);
    return name;
  }
}
