import { type RawBuilder, sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';
import { NOT_MERGED } from '../buckets/unmerged.ts';

/**
 * An SQL join of the row of `spend_by_month`, as `month`, in which a window counts that is folded, or that came late to folded ones;
 * null for any other bucket key.
 */
export function joinMonth(bucketKey: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    CROSS JOIN LATERAL regexp_match(${bucketKey}, '^([^/]*)/(\\d+)/(-?\\d+)/(.*)$') AS part
    CROSS JOIN LATERAL (SELECT to_timestamp(part[3]::bigint / 1000.0) AS start) AS counted_window
    LEFT JOIN spend_by_month AS month
      ON month.policy_id = part[1] AND month.counter_version = part[2]::integer AND month.subject = part[4]
      AND month.month = date_trunc('month', counted_window.start, 'UTC') AND month.folded_to >= counted_window.start`;
}

/** The name of a row of `spend_by_month`: as a bucket key, with the month in place of the start of a window. */
const MONTH_KEY = sql<string>`month.policy_id || '/' || month.counter_version || '/'
  || to_char(month.month AT TIME ZONE 'UTC', 'YYYY-MM') || '/' || month.subject`;

/** The name of the sum in which a bucket counts, behind `joinMonth`. */
export function sumKey(bucketKey: RawBuilder<unknown>): RawBuilder<string> {
  return sql<string>`coalesce(${MONTH_KEY}, ${bucketKey})`;
}

/** A relation: what each sum has, be it a bucket, or a month with what came late to it, merged or not. */
export const SUMS = sql`(
  SELECT bucket_key, ${boundedSum(sql`sum(spent_nano_usd)`)} AS spent_nano_usd,
    ${boundedSum(sql`sum(opening_nano_usd)`)} AS opening_nano_usd
  FROM (
    SELECT ${sumKey(sql.ref('bucket.bucket_key'))} AS bucket_key, bucket.spent_nano_usd, bucket.opening_nano_usd
    FROM spend_buckets AS bucket ${joinMonth(sql.ref('bucket.bucket_key'))}
    UNION ALL
    SELECT ${sumKey(sql.ref('appended.bucket_key'))}, appended.nano_usd, 0
    FROM appended_spend AS appended ${joinMonth(sql.ref('appended.bucket_key'))}
    WHERE ${NOT_MERGED}
    UNION ALL
    SELECT ${MONTH_KEY}, month.spent_nano_usd, month.opening_nano_usd FROM spend_by_month AS month
  ) AS counted
  GROUP BY bucket_key
)`;
