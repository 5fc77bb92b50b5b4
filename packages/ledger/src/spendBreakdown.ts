import type { Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';
import { type LedgerFilter, matches } from './ledgerFilter.ts';

/** What spend can be broken down by, besides `label:<key>` for any key of a label. */
export const SPEND_DIMENSIONS = [
  'principal',
  'key',
  'policy',
  'model',
  'provider',
  'user',
  'team',
  'project',
  'env',
  'workload_type',
  'namespace',
  'workload',
] as const;
export type SpendDimension = (typeof SPEND_DIMENSIONS)[number] | `label:${string}`;

export interface SpendQuery {
  readonly filter: LedgerFilter;
  /** Without any, all that the filter lets through is one group. */
  readonly groupBy: readonly SpendDimension[];
  /** Where each bucket of time begins, in order, the first at or before `filter.from`. Empty: the range is one. */
  readonly bucketEdges: readonly Date[];
}

/** The spend of one group in one bucket of time. */
export interface SpendRow {
  /** Null where the range is not cut into buckets. */
  readonly bucketStart: Date | null;
  /** One value for each dimension of the query, in its order; null for attempts that carry none. */
  readonly group: readonly (string | null)[];
  /** Requests with at least one attempt here. One that was tried on two models is in the groups of both. */
  readonly requests: number;
  readonly attempts: number;
  /** Requests with at least one attempt here whose usage was estimated. */
  readonly estimatedRequests: number;
  /** Attempts that failed at the vendor or on the way to it. */
  readonly errors: number;
  readonly inputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
  readonly cacheWrite1hTokens: number;
  readonly outputTokens: number;
  readonly cost: NanoUsd;
  /** Where the row stands in the order of the answer: what `after` takes. */
  readonly position: readonly string[];
}

const OF_DIMENSION: Record<(typeof SPEND_DIMENSIONS)[number], RawBuilder<unknown>> = {
  principal: sql`principal_id`,
  key: sql`key_id`,
  policy: sql`policy_id`,
  model: sql`model`,
  provider: sql`provider`,
  user: sql`attribution ->> 'user'`,
  team: sql`attribution ->> 'team'`,
  project: sql`attribution ->> 'project'`,
  env: sql`attribution ->> 'env'`,
  workload_type: sql`attribution ->> 'workload_type'`,
  namespace: sql`attribution ->> 'namespace'`,
  workload: sql`attribution ->> 'workload'`,
};
const LABEL = 'label:';

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
  const { rows } = await sql<Row>`${spendSql(query, page.after)} LIMIT ${page.limit}`.execute(db);
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
      const { rows } = await sql<Row>`FETCH ${sql.lit(ROWS_AT_A_TIME)} FROM spend_rows`.execute(tx);
      if (rows.length > 0) yield rows.map((row) => spendRow(query, row));
      if (rows.length < ROWS_AT_A_TIME) return;
    }
  } finally {
    await tx.rollback().execute();
  }
}

const ROWS_AT_A_TIME = 500;
const READER_TIMEOUT_MS = 60_000;

interface Row {
  readonly bucket: Date | null;
  readonly requests: bigint;
  readonly attempts: bigint;
  readonly estimated_requests: bigint;
  readonly errors: bigint;
  readonly input_tokens: bigint;
  readonly cache_read_tokens: bigint;
  readonly cache_write_tokens: bigint;
  readonly cache_write_1h_tokens: bigint;
  readonly output_tokens: bigint;
  /** A sum of bigints is a numeric, which is read as text. */
  readonly cost: string;
  readonly [group: `g${number}`]: string;
}

/**
 * A value is grouped and sorted as '=' and itself, its absence as '': so all have a place in one order of bytes, and a
 * page can begin after any of them.
 */
export function spendSql(query: SpendQuery, after: readonly string[] | undefined): RawBuilder<Row> {
  const bucketed = query.bucketEdges.length > 0;
  const groups = query.groupBy.map((_, index) => sql.ref(`g${index}`));
  const order = [...(bucketed ? [sql.ref('bucket')] : []), ...groups];
  const values = query.groupBy.map(
    (dimension, index) =>
      sql`coalesce('=' || (${dimensionOf(dimension)}), '') COLLATE "C" AS ${sql.ref(`g${index}`)}`,
  );
  const columns = [
    sql`${bucketed ? bucketOf(query.bucketEdges) : sql`NULL::timestamptz`} AS bucket`,
    ...values,
  ];
  return sql<Row>`
    SELECT ${sql.join([sql.ref('bucket'), ...groups])},
      count(DISTINCT request_id) AS requests,
      count(*) AS attempts,
      count(DISTINCT request_id) FILTER (WHERE estimated) AS estimated_requests,
      count(*) FILTER (WHERE outcome IN ('upstream_error', 'upstream_unreachable', 'interrupted')) AS errors,
      coalesce(sum(input_tokens), 0)::bigint AS input_tokens,
      coalesce(sum(cache_read_tokens), 0)::bigint AS cache_read_tokens,
      coalesce(sum(cache_write_tokens), 0)::bigint AS cache_write_tokens,
      coalesce(sum(cache_write_1h_tokens), 0)::bigint AS cache_write_1h_tokens,
      coalesce(sum(output_tokens), 0)::bigint AS output_tokens,
      coalesce(sum(cost_nano_usd), 0)::text AS cost
    FROM (
      SELECT usage_events.*, ${sql.join(columns)} FROM usage_events
      WHERE ${sql.join(matches('usage_events', fromPage(query, after)), sql` AND `)}
    ) AS event
    WHERE ${after && order.length > 0 ? sql`(${sql.join(order)}) > (${sql.join(startOf(after, bucketed))})` : sql`true`}
    GROUP BY ${sql.join([sql.ref('bucket'), ...groups])}
    ORDER BY ${sql.join([sql.ref('bucket'), ...groups])}`;
}

/** Buckets before the page's first one need not be read again. */
function fromPage(query: SpendQuery, after: readonly string[] | undefined): LedgerFilter {
  const bucket = query.bucketEdges.length > 0 ? after?.[0] : undefined;
  if (bucket === undefined || Date.parse(bucket) <= query.filter.from.getTime()) return query.filter;
  return { ...query.filter, from: new Date(bucket) };
}

function startOf(after: readonly string[], bucketed: boolean): RawBuilder<unknown>[] {
  return after.map((part, index) =>
    bucketed && index === 0 ? sql`${part}::timestamptz` : sql`${part}::text`,
  );
}

/** The edges come from the caller, so that Postgres and we need not agree about time zones. */
function bucketOf(edges: readonly Date[]): RawBuilder<unknown> {
  const list = edges.map((edge) => edge.toISOString());
  return sql`(${list}::timestamptz[])[width_bucket(admitted_at::timestamptz, ${list}::timestamptz[])]`;
}

function dimensionOf(dimension: SpendDimension): RawBuilder<unknown> {
  if (isLabel(dimension)) return sql`attribution -> 'labels' ->> ${dimension.slice(LABEL.length)}::text`;
  return OF_DIMENSION[dimension];
}

function isLabel(dimension: SpendDimension): dimension is `label:${string}` {
  return dimension.startsWith(LABEL);
}

function spendRow(query: SpendQuery, row: Row): SpendRow {
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
