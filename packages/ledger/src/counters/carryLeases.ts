import { arrayLiteral, type Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { addToLeased } from '../buckets/addToLeased.ts';
import { lockedLeaseOf } from '../leases/leaseOf.ts';

interface NewCounter {
  /** The policy's id. */
  readonly id: string;
  readonly counter_version: number;
  readonly counter_scope: 'key' | 'principal' | 'policy';
}

/**
 * Lets what leases hold in a policy's earlier counters count in the new one as well, since it may be spent in the new
 * counter's window. Call it with `lockCounters` exclusive: nothing is granted, recorded or closed meanwhile.
 *
 * If the scope gets narrower, say from one counter for the policy to one per key, it is unknown whose spend a hold will
 * become. Such a hold is not carried, and may be spent in excess of the new limit.
 */
export async function carryLeases(tx: Tx, policy: NewCounter, windowStart: Date): Promise<void> {
  const held = await findHeld(tx, policy, windowStart);
  if (held.length === 0) return;
  const prefix = `${policy.id}/${policy.counter_version}/${windowStart.getTime()}/`;
  const subjects = [...new Set(held.map((lease) => lease.subject))];
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT ${prefix}::text || subject, ${policy.id}, ${policy.counter_version}, subject, ${windowStart}, 0
    FROM unnest(${arrayLiteral(subjects)}::text[]) AS subject
    ON CONFLICT DO NOTHING`.execute(tx);
  await sql`
    WITH found AS MATERIALIZED (
      SELECT lease.*, held.was_also, held.next
      FROM unnest(${arrayLiteral(held.map((lease) => lease.bucket_key))}::text[],
                  ${arrayLiteral(held.map((lease) => lease.producer_id))}::uuid[],
                  ${arrayLiteral(held.map((lease) => lease.epoch))}::uuid[],
                  ${arrayLiteral(held.map((lease) => lease.also_bucket_key))}::text[],
                  ${arrayLiteral(held.map((lease) => prefix + lease.subject))}::text[])
        AS held (bucket_key, producer_id, epoch, was_also, next)
      CROSS JOIN LATERAL (${lockedLeaseOf('held')}) AS lease
    ), carried AS (
      -- Each row exists, and is locked. A conflict finds it by its key.
      INSERT INTO budget_leases (
        bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd, also_bucket_key)
      SELECT bucket_key, producer_id, epoch, seq, granted_nano_usd, returned_nano_usd, next FROM found
      ON CONFLICT (bucket_key, producer_id, epoch) DO UPDATE SET also_bucket_key = excluded.also_bucket_key
    ), moved AS (
      SELECT key AS bucket_key, sum(nano_usd)::bigint AS nano_usd
      FROM found CROSS JOIN LATERAL (
        VALUES (next, hold_nano_usd), (was_also, -hold_nano_usd)
      ) AS moved (key, nano_usd)
      WHERE key IS NOT NULL
      GROUP BY key
    )
    ${addToLeased('moved')}`.execute(tx);
}

interface HeldLease {
  readonly bucket_key: string;
  readonly producer_id: string;
  readonly epoch: string;
  readonly also_bucket_key: string | null;
  /** The subject of the counter that it holds in, in the new scope. */
  readonly subject: string;
}

/** The leases on earlier counters that hold something and whose windows overlap the new counter's window. */
async function findHeld(tx: Tx, policy: NewCounter, windowStart: Date): Promise<HeldLease[]> {
  const subject = {
    key: sql<string>`CASE WHEN bucket.subject LIKE 'key:%' THEN bucket.subject END`,
    principal: sql<string>`CASE WHEN bucket.subject LIKE 'principal:%' THEN bucket.subject
                                ELSE 'principal:' || keys.principal_id END`,
    policy: sql<string>`'policy'`,
  }[policy.counter_scope];
  const { rows } = await sql<HeldLease>`
    SELECT * FROM (
      SELECT lease.bucket_key, lease.producer_id, lease.epoch, lease.also_bucket_key, ${subject} AS subject
      FROM spend_buckets AS bucket
      -- For each bucket: a join may read all leases and keys. OFFSET keeps it from becoming one.
      CROSS JOIN LATERAL (
        SELECT * FROM budget_leases AS of_bucket WHERE of_bucket.bucket_key = bucket.bucket_key OFFSET 0
      ) AS lease
      LEFT JOIN LATERAL (SELECT * FROM keys WHERE id = substr(bucket.subject, 5) LIMIT 1) AS keys
        ON bucket.subject LIKE 'key:%'
      WHERE bucket.policy_id = ${policy.id} AND bucket.counter_version < ${policy.counter_version}
        AND lease.hold_nano_usd > 0
        AND (lease.window_end > ${windowStart} OR lease.window_end IS NULL)
    ) AS held
    WHERE subject IS NOT NULL`.execute(tx);
  return rows;
}
