import type { Database } from '@weighbridge/database';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';

/** The cost of one execution of a statement, as counted by Postgres: the same on any machine. */
export interface ExplainedStatement {
  readonly sql: string;
  /** The rows that all nodes of the plan returned or threw away. */
  readonly visited: number;
  /** The rows that filters threw away after they were read. */
  readonly discarded: number;
  /** Tables that were read as a whole. */
  readonly scanned: readonly string[];
  /** One line for each node of the plan. */
  readonly plan: string;
}

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Rows Removed by Join Filter'?: number;
  readonly 'Rows Removed by Index Recheck'?: number;
  readonly Plans?: readonly PlanNode[];
}

/** Of no table are statistics gathered from here on, as on a new installation. */
export async function stopStatistics(db: Database): Promise<void> {
  await sql`
    DO $$
    DECLARE name regclass;
    BEGIN
      FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
      LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name); END LOOP;
    END $$`.execute(db);
}

const INT8_OID = 20;
const EXPLAINED = /^\s*(with|select|insert|update|delete)\b/i;

/**
 * A database that explains each statement before it executes it: EXPLAIN ANALYZE runs it, and is rolled back. `statements` has them
 * in the order of execution.
 */
export function createExplainedDatabase(url: string): {
  readonly db: Database;
  readonly statements: ExplainedStatement[];
} {
  const statements: ExplainedStatement[] = [];
  const pool = new pg.Pool({
    connectionString: url,
    max: 1,
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        oid === INT8_OID ? (text: string) => BigInt(text) : pg.types.getTypeParser(oid, format as 'text'),
    },
  });
  const connect = async () => {
    const client = await pool.connect();
    let isOpen = false;
    const query = async (sql: string, parameters: readonly unknown[] = []) => {
      if (EXPLAINED.test(sql)) {
        const [begin, end] = isOpen
          ? ['SAVEPOINT explained', 'ROLLBACK TO SAVEPOINT explained']
          : ['BEGIN', 'ROLLBACK'];
        await client.query(begin);
        const explain = `EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) ${sql}`;
        const { rows } = await client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(explain, [...parameters]);
        await client.query(end);
        const plan = rows[0]?.['QUERY PLAN'][0].Plan;
        if (!plan) throw new Error('EXPLAIN returned no plan');
        statements.push(explained(sql, plan));
      }
      const result = await client.query(sql, [...parameters]);
      if (/^\s*begin\b/i.test(sql)) isOpen = true;
      if (/^\s*(commit|rollback)\s*$/i.test(sql)) isOpen = false;
      // Of the ledger's own limit of pauses, half may pass while a busy machine explains the next statement.
      if (isOpen) await client.query('SET LOCAL idle_in_transaction_session_timeout = 0');
      return result;
    };
    return { query, release: () => client.release() };
  };
  const dialect = new PostgresDialect({ pool: { connect, end: () => pool.end() } as unknown as pg.Pool });
  return { db: new Kysely({ dialect }), statements };
}

function explained(sql: string, root: PlanNode): ExplainedStatement {
  let [visited, discarded] = [0, 0];
  const scanned: string[] = [];
  const lines: string[] = [];
  const visit = (node: PlanNode, depth: number, found = 0) => {
    const { 'Actual Loops': loops, 'Relation Name': table, 'Node Type': type } = node;
    const removed =
      (node['Rows Removed by Filter'] ?? 0) +
      (node['Rows Removed by Join Filter'] ?? 0) +
      (node['Rows Removed by Index Recheck'] ?? 0);
    const read = (node['Actual Rows'] + removed) * loops;
    // What a bitmap led to was counted where it was read.
    visited += Math.max(0, read - found);
    discarded += removed * loops;
    if (type === 'Seq Scan' && table !== undefined && loops > 0) scanned.push(table);
    const on = [node['Index Name'], table].filter((name) => name !== undefined).join(' of ');
    lines.push(`${'  '.repeat(depth)}${type} ${on} ${node['Actual Rows']}+${removed} × ${loops}`);
    const [only] = node.Plans ?? [];
    const isBitmap = type === 'Bitmap Heap Scan' && only?.['Node Type'] === 'Bitmap Index Scan';
    for (const child of node.Plans ?? []) visit(child, depth + 1, isBitmap ? read : 0);
  };
  visit(root, 0);
  return { sql, visited, discarded, scanned, plan: lines.join('\n') };
}
