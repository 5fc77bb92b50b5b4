import { type RawBuilder, sql } from 'kysely';

/**
 * Four billion dollars: the columns hold twice as much, and no limit reaches a quarter of it. A sum that gets there stays there; the
 * rows of the ledger have every amount, and the rebuild compares with this bound.
 */
export const MAX_SUM_NANO_USD = 4_000_000_000_000_000_000n;
const MIN_SUM_NANO_USD = -MAX_SUM_NANO_USD;

/** The text of an SQL expression: a sum, added up as a `numeric`, as its `bigint` column holds it. No event makes it overflow. */
export function boundedSumText(sum: string): string {
  return `least(greatest(${sum}, ${MIN_SUM_NANO_USD}), ${MAX_SUM_NANO_USD})::bigint`;
}

/** The same of an expression. */
export function boundedSum(sum: RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`least(greatest(${sum}, ${sql.lit(MIN_SUM_NANO_USD)}), ${sql.lit(MAX_SUM_NANO_USD)})::bigint`;
}
