import { type BucketRef, keySubject, POLICY_SUBJECT } from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { type ExplainedStatement, stopStatistics } from '@weighbridge/testing';
import { sql } from 'kysely';
import { openMonth } from './ledger.ts';

export const NOW = new Date('2026-11-10T12:00:00Z');
const WINDOW_START = new Date('2026-11-10T00:00:00Z');
const KEYS = 8_000;

/** Named from 0. */
export const keyName = (n: number): string => `key_${n}`;
export const principalOf = (n: number): string => `principal_${n % 200}`;

const uuid = (prefix: string, n: number) =>
  `019a6c00-${prefix}-7000-8000-${n.toString(16).padStart(12, '0')}`;
/** The nth holder of leases. The first holds one on each key's bucket. */
export const holder = (n: number) => ({ producerId: uuid('0001', n), epoch: uuid('0002', n) });

export const keyBucket = (n: number): BucketRef => ({
  policyId: 'pol_keys',
  counterVersion: 1,
  subject: keySubject(keyName(n)),
  windowStartMs: BigInt(WINDOW_START.getTime()),
});
export const COMPANY_BUCKET: BucketRef = {
  policyId: 'pol_company',
  counterVersion: 1,
  subject: POLICY_SUBJECT,
  windowStartMs: BigInt(WINDOW_START.getTime()),
};

/**
 * Fills an empty database with what a busy day leaves: 8,000 keys below a company's policy, 1,000 epochs, and 70,000 leases, of
 * which one epoch holds 8,000, and others hold nothing of yesterday's windows. Postgres gathers no statistics of it.
 */
export async function growLedger(db: Database): Promise<void> {
  await openMonth(db, NOW);
  await stopStatistics(db);
  await sql`
    INSERT INTO policies (id, name, enforcement, window_kind, timezone, limit_nano_usd, counter_scope, counter_since,
      created_at, updated_at, thresholds, requests_per_minute)
    SELECT id, id, 'enforce', 'day', 'UTC', 1000000000000, scope, ${WINDOW_START}, ${WINDOW_START}, ${WINDOW_START}, '{50}', 1000000
    FROM (
      SELECT 'pol_company' AS id, 'policy' AS scope UNION ALL SELECT 'pol_keys', 'key'
      UNION ALL SELECT 'pol_' || n, 'key' FROM generate_series(1, 2000) AS n
    ) AS made`.execute(db);
  await sql`INSERT INTO principals (id, created_at) SELECT 'principal_' || n, ${NOW} FROM generate_series(0, 199) AS n`.execute(
    db,
  );
  await sql`
    INSERT INTO keys (id, name, kind, principal_id, policy_id, scopes, counter_key_id, key_hint, created_at, updated_at)
    SELECT 'key_' || n, '', 'service', 'principal_' || n % 200, 'pol_keys', '{}', 'key_' || n, '', ${NOW}, ${NOW}
    FROM generate_series(0, ${KEYS - 1}::int) AS n`.execute(db);
  // Four windows of each key, today's principals and the company.
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd,
      leased_nano_usd, limit_nano_usd)
    SELECT policy || '/1/' || (extract(epoch FROM start) * 1000)::bigint || '/' || subject, policy, 1, subject, start,
      1000, 1000000000, 1000000000000
    FROM (
      SELECT 'pol_keys' AS policy, 'key:key_' || n AS subject, ${WINDOW_START}::timestamptz - ago * interval '1 day' AS start
      FROM generate_series(0, ${KEYS - 1}::int) AS n, generate_series(0, 3) AS ago
      UNION ALL SELECT policy, 'principal:principal_' || n, ${WINDOW_START}
        FROM generate_series(0, 199) AS n, unnest('{pol_keys,pol_company}'::text[]) AS policy
      UNION ALL SELECT 'pol_company', 'policy', ${WINDOW_START}
    ) AS made`.execute(db);
  await sql`
    INSERT INTO producers (producer_id, epoch, first_seen_at, last_seen_at, mark_at, state, ended_at)
    SELECT ('019a6c00-0001-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      ('019a6c00-0002-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${NOW}, ${NOW}, ${NOW},
      CASE WHEN n < 600 THEN 'open' ELSE 'lost' END, CASE WHEN n >= 600 THEN ${NOW}::timestamptz END
    FROM generate_series(0, 999) AS n`.execute(db);
  await sql`
    INSERT INTO producer_shards (producer_id, epoch, shard, received)
    SELECT producer_id, epoch, shard, '{[1,101)}' FROM producers, generate_series(0, 3) AS shard`.execute(db);
  await sql`
    INSERT INTO budget_leases (bucket_key, producer_id, epoch, window_end, seq, granted_nano_usd, returned_nano_usd)
    SELECT policy || '/1/' || (extract(epoch FROM ${WINDOW_START}::timestamptz) * 1000)::bigint || '/' || subject,
      ('019a6c00-0001-7000-8000-' || lpad(to_hex(holder), 12, '0'))::uuid,
      ('019a6c00-0002-7000-8000-' || lpad(to_hex(holder), 12, '0'))::uuid, ${WINDOW_START}::timestamptz + interval '1 day', 1, 1000000, 0
    FROM (
      SELECT 'pol_keys' AS policy, 'key:key_' || n AS subject, holder
      FROM generate_series(0, ${KEYS - 1}::int) AS n, generate_series(0, 999) AS holder
      WHERE holder = 0 OR (n + holder) % 151 = 0
      UNION ALL SELECT 'pol_company', 'policy', holder FROM generate_series(0, 999) AS holder
    ) AS made`.execute(db);
  // Of what 50 epochs spent of the company's bucket, most is merged, in versions that are not cleaned up.
  await sql`
    INSERT INTO appended_spend (bucket_key, producer_id, epoch, nano_usd, settled_from)
    SELECT 'pol_company/1/' || ${WINDOW_START.getTime()}::bigint || '/policy', producer_id, epoch, 10, ${NOW}
    FROM (SELECT * FROM producers ORDER BY epoch LIMIT 50) AS spending, generate_series(1, 401) AS n
    ORDER BY n, epoch`.execute(db);
  await sql`UPDATE merged_spend SET up_to_id = (SELECT max(id) - 50 FROM appended_spend)`.execute(db);
  const yesterday = new Date(WINDOW_START.getTime() - 86_400_000);
  await sql`
    INSERT INTO budget_leases (bucket_key, producer_id, epoch, window_end, seq, granted_nano_usd, returned_nano_usd)
    SELECT 'pol_keys/1/' || ${yesterday.getTime()}::bigint || '/key:key_' || n, producer_id, epoch, ${WINDOW_START}, 2, 9, 9
    FROM generate_series(0, 999) AS n, generate_series(0, 7) AS k
    JOIN (SELECT *, row_number() OVER (ORDER BY epoch) AS nth FROM producers) AS holder ON true
    WHERE nth = 500 + (7 * n + 11 * k) % 90`.execute(db);
  await sql`
    INSERT INTO spend_by_month (policy_id, counter_version, subject, month, folded_to, spent_nano_usd)
    SELECT 'pol_keys', 1, 'key:key_' || n, date_trunc('month', ${NOW}::timestamptz, 'UTC') - ago * interval '1 month',
      date_trunc('month', ${NOW}::timestamptz, 'UTC') - ago * interval '1 month', 1000
    FROM generate_series(0, ${KEYS - 1}::int) AS n, generate_series(0, 11) AS ago`.execute(db);
  await sql`
    INSERT INTO rate_minutes (counter_key, minute, requests, tokens)
    SELECT 'pol_keys/1/key:key_' || n, 1, 1, 1 FROM generate_series(0, ${KEYS - 1}::int) AS n`.execute(db);
  // Five users of each key a day.
  await sql`
    INSERT INTO usage_attribution_days (day, key_id, combinations)
    SELECT ${WINDOW_START}::timestamptz - ago * interval '1 day', 'key_' || n, 5
    FROM generate_series(0, ${KEYS - 1}::int) AS n, generate_series(0, 1) AS ago`.execute(db);
  await sql`
    INSERT INTO usage_attributions (day, key_id, attribution_sha256)
    SELECT day, key_id, sha256(convert_to(nth::text, 'UTF8'))
    FROM usage_attribution_days, generate_series(1, 5) AS nth`.execute(db);
}

/** For the message of a failed assertion. */
export function describeCost({ sql: text, visited, discarded, scanned, plan }: ExplainedStatement): string {
  return `${text.replaceAll(/\s+/g, ' ').slice(0, 160)}\n${visited} rows visited, ${discarded} discarded, scanned: ${scanned}\n${plan}`;
}
