import { COST, type DuckSql, duck, nanoFromDecimal } from '@weighbridge/archive';
import type { Database } from '@weighbridge/database';
import type { RawBuilder } from 'kysely';
import type { AdmissionRange, ArchiveView } from '../archive/archivedFiles.ts';
import { type Archived, archivedFilter, archivedValue, conditionsOf } from './archivedFilter.ts';
import type { LedgerFilter } from './ledgerFilter.ts';
import type { SpendQuery } from './spendQuery.ts';
import { distinguishesModels, eventRanges, fromArchived, TOKENS } from './spendSql.ts';
import { FAILED } from './usageSums.ts';

/** Sums that a query may need of the archive; Postgres then groups and sorts them with its own. */
const MAX_SUMS = 200_000;

/**
 * What a query needs of single attempts that are archived, as a source of `spendSql`: sums by group and bucket, which DuckDB adds up.
 * Undefined if it needs none.
 */
export async function archivedSource(
  db: Database,
  view: ArchiveView | undefined,
  query: SpendQuery,
  after: readonly string[] | undefined,
): Promise<RawBuilder<unknown> | undefined> {
  if (!view) return undefined;
  const filter = await archivedFilter(db, query.filter);
  const sums: object[] = [];
  // Sorted rows are those of the whole range, on each page.
  const page = query.sort === undefined ? after : undefined;
  for (const range of eventRanges(query, page)) sums.push(...(await sumRange(view, query, filter, range)));
  return sums.length > 0 ? fromArchived(query, JSON.stringify(sums)) : undefined;
}

/** Each sum has the members that `fromArchived` reads. */
async function sumRange(
  { archive, files }: ArchiveView,
  query: SpendQuery,
  filter: Archived<LedgerFilter>,
  range: AdmissionRange,
): Promise<object[]> {
  // A profile depends on aliases, which Postgres has: the sums are by what decides it.
  const groups = query.groupBy.map((dimension, index) =>
    dimension === 'profile'
      ? duck`model_requested, policy_id, `
      : duck`${archivedValue(dimension)} AS ${duck.column(`v${index}`)}, `,
  );
  const wanted = conditionsOf({ ...filter, ...range });
  const requests = distinguishesModels(query) ? duck`model_attempt = 1` : duck`attempt = 1`;
  const count = (condition: DuckSql) => duck`count(*) FILTER (WHERE ${condition})::VARCHAR`;
  const tokens = TOKENS.map((name) => duck`sum(${duck.column(name)})::VARCHAR AS ${duck.column(name)}`);
  // The last edge at or before each attempt.
  const bucketed =
    query.bucketEdges.length > 0
      ? duck`ASOF JOIN (SELECT unnest([${duck.join(query.bucketEdges)}]) AS edge) AS edges ON event.admitted_at >= edges.edge`
      : duck`CROSS JOIN (SELECT NULL::TIMESTAMPTZ AS edge) AS edges`;
  const rows = await archive.rows(
    await files(range),
    (relation) => duck`
      SELECT epoch_ms(edges.edge) AS edge_ms, ${duck.join(groups, duck``)}
        ${count(requests)} AS requests, ${count(duck`kind = 'attempt' AND NOT cache_hit`)} AS attempts,
        ${count(duck`estimated`)} AS estimated_requests, ${count(duck`outcome IN (${duck.join(FAILED)})`)} AS errors,
        ${duck.join(tokens)}, sum(${duck.column(COST)})::VARCHAR AS cost
      FROM (SELECT * FROM ${relation} WHERE ${wanted}) AS event ${bucketed}
      GROUP BY ALL`,
    MAX_SUMS,
  );
  return rows.map(({ edge_ms, cost, ...sum }) => ({
    ...sum,
    edge: edge_ms === null ? null : new Date(Number(edge_ms)).toISOString(),
    cost: String(nanoFromDecimal(String(cost))),
  }));
}
