import type { Archive } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { sql } from 'kysely';
import { acrossArchive } from '../archive/archivedFiles.ts';
import { archivedSource } from './archivedSpend.ts';
import type { SpendQuery } from './spendQuery.ts';
import { type SpendSums, spendSql } from './spendSql.ts';
import { readSumsSince } from './sumsSince.ts';

/** The spend of one group in one time bucket. */
export interface SpendRow {
  /** Null if the range is not divided into buckets. */
  readonly bucketStart: Date | null;
  /** One value per dimension of the query, in its order; null for attempts without one. */
  readonly group: readonly (string | null)[];
  /**
   * A request counts in the group and bucket of its first attempt. If the query distinguishes models or providers, it counts at
   * its first attempt on each model, so a request that was tried on two models is in both groups.
   */
  readonly requests: number;
  readonly attempts: number;
  /** Attempts whose usage was estimated. */
  readonly estimatedRequests: number;
  /** Attempts that failed at the vendor or on the way there. */
  readonly errors: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly outputTokens: number;
  /** Includes corrections of the attempts. */
  readonly cost: NanoUsd;
  /** The sum of the groups beyond the query's limit. */
  readonly isOthers: boolean;
  /** The row's position in the result, for `after`. */
  readonly position: readonly string[];
}

/** Whether a position is valid in the query's result. */
export function isSpendPosition(query: SpendQuery, position: readonly string[]): boolean {
  const isBucketed = query.bucketEdges.length > 0;
  const values = position.slice(Number(isBucketed) + (query.sort === undefined ? 0 : 2));
  const [others = '', sortKey = ''] = position.slice(Number(isBucketed));
  const bucketIsTime = !isBucketed || isTime(position[0] ?? '');
  const isSorted = query.sort === undefined || (/^[01]$/.test(others) && /^-?\d{1,40}$/.test(sortKey));
  const areValues = values.every(
    (value) => (value === '' || value.startsWith('=')) && !value.includes('\u0000'),
  );
  return values.length === query.groupBy.length && bucketIsTime && isSorted && areValues;
}

/** Only the form that `position` writes: Postgres reads other forms of a time differently, or not at all. */
function isTime(text: string): boolean {
  return /^\d{4}-/.test(text) && !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === text;
}

/** At most `limit` rows after a position, ordered by bucket and then by the values of the group. */
export async function readSpendRows(
  db: Database,
  query: SpendQuery,
  page: { readonly after: readonly string[] | undefined; readonly limit: number },
  archive?: Archive,
): Promise<SpendRow[]> {
  return await acrossArchive(db, archive, async (view) => {
    const archived = await archivedSource(db, view, query, page.after);
    const spend = spendSql(query, page.after, { ...(await readSumsSince(db)), archived });
    const { rows } = await sql<SpendSums>`${spend} LIMIT ${page.limit}`.execute(db);
    return rows.map((row) => spendRow(query, row));
  });
}

/**
 * The whole result, read with a cursor from one snapshot, with a few hundred rows in memory at a time. It holds a connection
 * until it ends or is closed, or until no rows were requested for a minute.
 */
export async function* streamSpendRows(
  db: Database,
  query: SpendQuery,
  archive?: Archive,
): AsyncGenerator<SpendRow[]> {
  const tx = await db.startTransaction().setAccessMode('read only').execute();
  try {
    // The server's own setting may end idle transactions before a slow reader asks for more.
    await sql`SET LOCAL idle_in_transaction_session_timeout = ${sql.lit(READER_TIMEOUT_MS)}`.execute(tx);
    await acrossArchive(tx, archive, async (view) => {
      const archived = await archivedSource(tx, view, query, undefined);
      const spend = spendSql(query, undefined, { ...(await readSumsSince(tx)), archived });
      // Of a try before.
      if (archive) await sql`CLOSE ALL`.execute(tx);
      await sql`DECLARE spend_rows NO SCROLL CURSOR FOR ${spend}`.execute(tx);
    });
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
    isOthers: row.others === 1,
    position: [
      ...(row.bucket ? [row.bucket.toISOString()] : []),
      ...(query.sort === undefined ? [] : [String(row.others ?? 0), String(row.sort_key ?? 0)]),
      ...values,
    ],
  };
}
