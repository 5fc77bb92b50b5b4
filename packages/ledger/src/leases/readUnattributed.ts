import { arrayLiteral, type Database } from '@weighbridge/database';
import type { NanoUsd } from '@weighbridge/domain';
import { type RawBuilder, sql } from 'kysely';

/**
 * What lost proxies may have spent of each bucket without the ledger knowing: what their leases hold. Only late events of
 * theirs reduce it. Buckets without any have 0.
 */
export async function readUnattributed(
  db: Database,
  bucketKeys: readonly string[],
): Promise<Map<string, NanoUsd>> {
  const held = new Map(bucketKeys.map((key) => [key, 0n]));
  if (bucketKeys.length === 0) return held;
  const { rows } = await sql<{ key: string; nano_usd: bigint }>`
    SELECT key, ${unattributed(sql.ref('key'))} AS nano_usd
    FROM unnest(${arrayLiteral(bucketKeys)}::text[]) AS key`.execute(db);
  for (const { key, nano_usd } of rows) held.set(key, nano_usd);
  return held;
}

/** An SQL expression: the same for one bucket. */
export function unattributed(key: string | RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`coalesce((
    SELECT sum(lease.hold_nano_usd)
    FROM (
      SELECT * FROM budget_leases WHERE bucket_key = ${key}
      UNION ALL SELECT * FROM budget_leases WHERE also_bucket_key = ${key}
    ) AS lease
    WHERE lease.hold_nano_usd > 0 AND (
      SELECT producer.state FROM producers AS producer
      WHERE producer.producer_id = lease.producer_id AND producer.epoch = lease.epoch
    ) IN ('lost', 'retired')
  ), 0)::bigint`;
}
