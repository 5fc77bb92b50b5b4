import { type DuckSql, duck } from '@weighbridge/archive';
import { type BucketRef, type Counts, unitOf } from '@weighbridge/budget';
import { type RawBuilder, sql } from 'kysely';

/** An event, as far as it decides what it counts. */
export interface CountedAmounts {
  readonly row: { readonly cost_nano_usd: bigint };
  /** In buckets of requests and of tokens; undefined: its cost in every bucket. */
  readonly counts?: Counts | undefined;
}

/** What an event counts in a bucket: nano-USD, or what else the bucket counts. */
export function amountIn(bucket: BucketRef, { row, counts }: CountedAmounts): bigint {
  const unit = counts && unitOf(bucket);
  return unit ? counts[unit] : row.cost_nano_usd;
}

/** The third part of the bucket's `policy_id`, by which `unitOf` goes. */
const UNIT = sql`split_part(split_part(bucket_key, '/', 1), '.', 3)`;

/** An SQL expression: the same of a row of `usage_events`, in its bucket `bucket_key`. Few rows have details. */
export const AMOUNT: RawBuilder<bigint> = sql<bigint>`CASE
  WHEN details IS NULL OR NOT jsonb_exists(details, 'counts') OR ${UNIT} = '' THEN cost_nano_usd
  ELSE coalesce((details -> 'counts' ->> ${UNIT})::bigint, cost_nano_usd) END`;

/** The same for DuckDB, in dollars: a request or a token is stored as a nano-dollar. */
export function archivedAmount(cost: DuckSql): DuckSql {
  const unit = duck`split_part(split_part(bucket_key, '/', 1), '.', 3)`;
  return duck`CASE
    WHEN details IS NULL OR NOT contains(details, '"counts"') OR ${unit} = '' THEN ${cost}
    ELSE coalesce(json_extract_string(details, '/counts/' || ${unit})::DECIMAL(28,0) * 0.000000001, ${cost}) END`;
}
