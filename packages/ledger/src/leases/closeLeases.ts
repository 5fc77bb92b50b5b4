import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../buckets/successors.ts';
import { lockBuckets } from './lockBuckets.ts';

const LEASES_PER_TRANSACTION = 1_000;

/**
 * Closes the leases of closed epochs: the ledger has all of their spend, so the rest is returned to the buckets. Returns how
 * many were closed. Call it after the commit that closed an epoch: a lease call locks the epoch's row, so by then every grant
 * is visible, and none follows. Metering's maintenance calls it too, in case a process died in between.
 */
export async function closeLeases(db: Database): Promise<number> {
  for (let ended = 0; ; ) {
    const closed = await db.transaction().execute(async (tx) => {
      await lockCounters(tx, 'shared');
      const { rows } = await sql<{
        bucket_key: string;
        producer_id: string;
        epoch: string;
        also_bucket_key: string | null;
      }>`
        SELECT bucket_key, producer_id, epoch, also_bucket_key
        FROM budget_leases AS lease JOIN producers AS producer USING (producer_id, epoch)
        WHERE NOT lease.closed AND producer.state = 'closed'
        LIMIT ${LEASES_PER_TRANSACTION}`.execute(tx);
      if (rows.length === 0) return 0;
      await lockBuckets(
        tx,
        rows.flatMap((row) => [row.bucket_key, ...(row.also_bucket_key ? [row.also_bucket_key] : [])]),
      );
      await sql`
        WITH closed AS (
          UPDATE budget_leases AS lease SET closed = true
          FROM unnest(${arrayLiteral(rows.map((row) => row.bucket_key))}::text[],
                      ${arrayLiteral(rows.map((row) => row.producer_id))}::uuid[],
                      ${arrayLiteral(rows.map((row) => row.epoch))}::uuid[]) AS ended (bucket_key, producer_id, epoch)
          WHERE lease.bucket_key = ended.bucket_key AND lease.producer_id = ended.producer_id
            AND lease.epoch = ended.epoch AND NOT lease.closed
          RETURNING lease.bucket_key, lease.also_bucket_key,
                    lease.granted_nano_usd - lease.returned_nano_usd - lease.settled_nano_usd AS freed
        ), freed AS (
          SELECT key AS bucket_key, sum(freed)::bigint AS nano_usd
          FROM closed CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
          WHERE key IS NOT NULL AND freed > 0
          GROUP BY key
        )
        UPDATE spend_buckets AS bucket SET leased_nano_usd = bucket.leased_nano_usd - freed.nano_usd
        FROM freed
        WHERE bucket.bucket_key = freed.bucket_key`.execute(tx);
      return rows.length;
    });
    ended += closed;
    if (closed < LEASES_PER_TRANSACTION) return ended;
  }
}
