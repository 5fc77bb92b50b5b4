import type { Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { filtersCallersValues } from './ledgerFilter.ts';
import type { SpendQuery } from './spendQuery.ts';
import { DAYS, HOURS, isCallers, type SumsTable, TOTAL_DAYS, TOTAL_HOURS } from './usageSums.ts';

/** From which day on the tables of sums have all usage; `usage_by_hour` alone has what was before. */
export interface SumsSince {
  readonly days: Date;
  readonly totals: Date;
}

export async function readSumsSince(db: Database): Promise<SumsSince> {
  const { rows } = await sql<SumsSince>`
    SELECT since AS days, totals_since AS totals FROM usage_by_day_since`.execute(db);
  const [row] = rows;
  if (!row) throw new Error('usage_by_day_since has no row');
  return row;
}

/** The tables that a query's sums are read from. */
export interface SumsSource {
  readonly hours: SumsTable;
  readonly days: SumsTable;
  /** From when on they are whole. */
  readonly since: Date;
}

/** The smallest tables that have what a query groups and filters by. */
export function sumsSource(
  { filter, groupBy }: Pick<SpendQuery, 'filter'> & { readonly groupBy: readonly string[] },
  { days, totals }: SumsSince,
): SumsSource {
  if (filtersCallersValues(filter) || groupBy.some(isCallers)) {
    return { hours: HOURS, days: DAYS, since: days };
  }
  return { hours: TOTAL_HOURS, days: TOTAL_DAYS, since: days > totals ? days : totals };
}
