import { type RawBuilder, sql } from 'kysely';

/**
 * An SQL statement that adds to what leases hold of buckets that have a row; the relation has their keys, and amounts that may be
 * negative. A conflict finds each row by its key, where an UPDATE of joined rows may read all buckets. `opening_nano_usd` only carries
 * the amount: no row is inserted.
 */
export function addToLeased(relation: string): RawBuilder<unknown> {
  return sql`
    INSERT INTO spend_buckets AS bucket (
      bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd, opening_nano_usd)
    SELECT bucket_key, '', 0, '', 'epoch', 0, nano_usd FROM ${sql.table(relation)}
    ON CONFLICT (bucket_key) DO UPDATE SET leased_nano_usd = bucket.leased_nano_usd + excluded.opening_nano_usd`;
}
