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
    SELECT key, sum(lease.hold_nano_usd)::bigint AS nano_usd
    FROM unnest(${arrayLiteral(bucketKeys)}::text[]) AS key
    JOIN budget_leases AS lease ON lease.bucket_key = key OR lease.also_bucket_key = key
    JOIN producers AS producer USING (producer_id, epoch)
    WHERE producer.state IN ('lost', 'retired')
    GROUP BY key`.execute(db);
  for (const { key, nano_usd } of rows) held.set(key, nano_usd);
  return held;
}

/** An SQL expression: the same for one bucket. */
export function unattributed(key: string | RawBuilder<unknown>): RawBuilder<bigint> {
  return sql<bigint>`coalesce((
    SELECT sum(lease.hold_nano_usd)
    FROM budget_leases AS lease JOIN producers AS producer USING (producer_id, epoch)
    WHERE (lease.bucket_key = ${key} OR lease.also_bucket_key = ${key}) AND producer.state IN ('lost', 'retired')
  ), 0)::bigint`;
}
