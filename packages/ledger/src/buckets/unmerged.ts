import { type RawBuilder, sql } from 'kysely';
import { boundedSum } from './boundedSum.ts';

/** An SQL condition on `appended_spend`: without it, a look-up visits the rows that were merged since the oldest snapshot began. */
export const NOT_MERGED = sql`id > (SELECT up_to_id FROM merged_spend)`;

/** An SQL expression: what was appended to a bucket. */
export function unmergedSpend(bucketKey: string | RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`(
    SELECT ${boundedSum(sql`coalesce(sum(nano_usd), 0)`)} FROM appended_spend
    WHERE bucket_key = ${bucketKey} AND ${NOT_MERGED}
  )`;
}
