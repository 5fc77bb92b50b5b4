import { arrayLiteral, type Database } from '@weighbridge/database';
import { sql } from 'kysely';
import { addToLeased } from '../buckets/addToLeased.ts';
import { lockCounters } from '../buckets/lockCounters.ts';
import { lockedLeaseOf } from './leaseOf.ts';
import { lockBuckets } from './readLeases.ts';

const LEASES_PER_TRANSACTION = 1_000;

/**
 * Closes the leases of closed epochs: the ledger has all of their spend, so the rest is returned to the buckets. While usage of an
 * epoch is in quarantine, its leases go on holding what was reserved for it, until an operator decides. Returns how many were closed.
 * Call it after the commit that closed an epoch: a lease call locks the epoch's row, so by then every grant is visible, and none
 * follows. Metering's maintenance calls it too, in case a process died in between, and for what operators decided.
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
        WHERE NOT lease.closed AND producer.state = 'closed' AND NOT EXISTS (
          SELECT FROM quarantined_usage AS held
          WHERE held.state = 'held' AND held.producer_id = lease.producer_id AND held.epoch = lease.epoch
        )
        LIMIT ${LEASES_PER_TRANSACTION}`.execute(tx);
      if (rows.length === 0) return 0;
      await lockBuckets(
        tx,
        rows.flatMap((row) => [row.bucket_key, ...(row.also_bucket_key ? [row.also_bucket_key] : [])]),
      );
      await sql`
        WITH held AS MATERIALIZED (
          SELECT lease.*
          FROM unnest(${arrayLiteral(rows.map((row) => row.bucket_key))}::text[],
                      ${arrayLiteral(rows.map((row) => row.producer_id))}::uuid[],
                      ${arrayLiteral(rows.map((row) => row.epoch))}::uuid[]) AS ended (bucket_key, producer_id, epoch)
          CROSS JOIN LATERAL (${lockedLeaseOf('ended')}) AS lease
          WHERE NOT lease.closed
        ), closed AS (
          -- Each row exists, and is locked. A conflict finds it by its key.
          INSERT INTO budget_leases (bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd)
          SELECT bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd FROM held
          ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE SET closed = true
        ), freed AS (
          SELECT key AS bucket_key, -sum(hold_nano_usd)::bigint AS nano_usd
          FROM held CROSS JOIN LATERAL unnest(ARRAY[bucket_key, also_bucket_key]) AS key
          WHERE key IS NOT NULL AND hold_nano_usd > 0
          GROUP BY key
        )
        ${addToLeased('freed')}`.execute(tx);
      return rows.length;
    });
    ended += closed;
    if (closed < LEASES_PER_TRANSACTION) return ended;
  }
}
