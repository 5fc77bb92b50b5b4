import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import type { SpendQuery } from './spendQuery.ts';
import { type SpendSums, spendSql } from './spendSql.ts';

/** The spend of one group in one bucket of time. */
export interface SpendRow {
  /** Null where the range is not cut into buckets. */
  readonly bucketStart: Date | null;
  /** One value for each dimension of the query, in its order; null for attempts that carry none. */
  readonly group: readonly (string | null)[];
  /**
   * Requests by their first attempt: where that is, the request is. Where the query tells models or providers apart, by
   * their first attempt on each model: one that was tried on two models is in the groups of both.
   */
  readonly requests: number;
  readonly attempts: number;
  /** Attempts whose usage was estimated. */
  readonly estimatedRequests: number;
  /** Attempts that failed at the vendor or on the way to it. */
  readonly errors: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly outputTokens: number;
  /** With the corrections of attempts that were admitted then. */
  readonly cost: NanoUsd;
  /** Where the row stands in the order of the answer: what `after` takes. */
  readonly position: readonly string[];
}

/** Whether rows can stand at this position of the query's answer. */
export function isSpendPosition(query: SpendQuery, position: readonly string[]): boolean {
  const values = query.bucketEdges.length > 0 ? position.slice(1) : position;
  const bucketIsTime = values.length === position.length || isTime(position[0] ?? '');
  const areValues = values.every(
    (value) => (value === '' || value.startsWith('=')) && !value.includes('\u0000'),
  );
  return values.length === query.groupBy.length && bucketIsTime && areValues;
}

/** As a row's position writes it: other forms of time mean other things to Postgres, or nothing. */
function isTime(text: string): boolean {
  return /^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text;
}

/** At most `limit` rows, by bucket and then by the values of the group, after a position. */
export async function readSpendRows(
  db: Database,
  query: SpendQuery,
  page: { readonly after: readonly string[] | undefined; readonly limit: number },
): Promise<SpendRow[]> {
  const { rows } = await sql<SpendSums>`${spendSql(query, page.after)} LIMIT ${page.limit}`.execute(db);
  return rows.map((row) => spendRow(query, row));
}

/**
 * The whole answer, read by a cursor: a few hundred rows are in memory at a time, and all are of one snapshot. Holds a
 * connection until it ends or is given up, or for a minute after the last rows that were asked for.
 */
export async function* streamSpendRows(db: Database, query: SpendQuery): AsyncGenerator<SpendRow[]> {
  const tx = await db.startTransaction().setAccessMode('read only').execute();
  try {
    // A server may be set to end idle transactions sooner than a slow reader comes back for more.
    await sql`SET LOCAL idle_in_transaction_session_timeout = ${sql.lit(READER_TIMEOUT_MS)}`.execute(tx);
    await sql`DECLARE spend_rows NO SCROLL CURSOR FOR ${spendSql(query, undefined)}`.execute(tx);
    for (;;) {
      const { rows } = await sql<SpendSums>`FETCH ${sql.lit(ROWS_AT_A_TIME)} FROM spend_rows`.execute(tx);
      if (rows.length > 0) yield rows.map((row) => spendRow(query, row));
      if (rows.length < ROWS_AT_A_TIME) return;
    }
  } finally {
    await tx.rollback().execute();
  }
}

const ROWS_AT_A_TIME = 500;
const READER_TIMEOUT_MS = 60_000;

function spendRow(query: SpendQuery, row: SpendSums): SpendRow {
  const values = query.groupBy.map((_, index) => row[`g${index}`] ?? '');
  return {
    bucketStart: row.bucket,
    group: values.map((value) => (value === '' ? null : value.slice(1))),
    requests: Number(row.requests),
    attempts: Number(row.attempts),
    estimatedRequests: Number(row.estimated_requests),
    errors: Number(row.errors),
    inputTokens: Number(row.input_tokens),
    cacheReadTokens: Number(row.cache_read_tokens),
    cacheWriteTokens: Number(row.cache_write_tokens),
    cacheWrite1hTokens: Number(row.cache_write_1h_tokens),
    outputTokens: Number(row.output_tokens),
    cost: BigInt(row.cost),
    position: [...(row.bucket ? [row.bucket.toISOString()] : []), ...values],
  };
}
