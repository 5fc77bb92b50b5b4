import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { filtersCallersValues, matchesSums, mayMatchSums } from './ledgerFilter.ts';
import type { SpendQuery } from './spendQuery.ts';
import { sumsRead } from './spendSql.ts';
import type { SumsSince } from './sumsSince.ts';

/** In the words of the partial indexes. */
const HAS_OTHER = sql<SqlBool>`'(other)' = ANY (ARRAY["user", team, project, env])`;

/**
 * An SQL expression: whether some of what a filter by callers' values wants may count under `(other)`, which the query's sums then
 * lack. Single attempts have their true values.
 */
export function mayLackFolded(query: SpendQuery, since: SumsSince): RawBuilder<SqlBool> {
  if (!filtersCallersValues(query.filter)) return sql`false`;
  const found = sumsRead(query, query.filter, since).map(([{ name, unit }, range]) => {
    const filter = { ...query.filter, ...range };
    return sql`EXISTS (
      SELECT FROM ${sql.table(name)}
      WHERE ${sql.join([HAS_OTHER, ...mayMatchSums(name, unit, filter)], sql` AND `)}
        AND (${sql.join(matchesSums(name, unit, filter), sql` AND `)}) IS NOT TRUE
    )`;
  });
  return sql`(${sql.join([sql`false`, ...found], sql` OR `)})`;
}
