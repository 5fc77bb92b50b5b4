import { type RawBuilder, sql } from 'kysely';
import { boundedSum } from '../buckets/boundedSum.ts';
import { NOT_MERGED } from '../buckets/unmerged.ts';
import { leaseOf } from './leaseOf.ts';

/**
 * An SQL subquery, for LATERAL: what was appended to a bucket, `spent`, and how much of what leases hold in it that will settle,
 * `settled`: with both, its row is as if all was merged. Given a holder, `spent_by_holder` is what that spent of it.
 */
export function appendedTo(
  bucketKey: RawBuilder<unknown>,
  holder?: { readonly producerId: string; readonly epoch: string },
): RawBuilder<unknown> {
  const lease = leaseOf({
    bucketKey,
    producerId: sql.ref('of_epoch.producer_id'),
    epoch: sql.ref('of_epoch.epoch'),
  });
  const ofHolder = holder
    ? sql`, ${boundedSum(sql`coalesce(sum(of_epoch.nano_usd) FILTER (
        WHERE of_epoch.producer_id = ${holder.producerId} AND of_epoch.epoch = ${holder.epoch}), 0)`)} AS spent_by_holder`
    : sql``;
  return sql`
    SELECT ${boundedSum(sql`coalesce(sum(of_epoch.nano_usd), 0)`)} AS spent,
      coalesce(sum(greatest(least(coalesce(lease.hold_nano_usd, 0), of_epoch.nano_usd), 0)), 0)::bigint AS settled${ofHolder}
    FROM (
      SELECT producer_id, epoch, sum(nano_usd) AS nano_usd FROM appended_spend
      WHERE bucket_key = ${bucketKey} AND ${NOT_MERGED}
      GROUP BY producer_id, epoch
    ) AS of_epoch
    LEFT JOIN LATERAL (${lease}) AS lease ON true`;
}
