import { readdir, readFile } from 'node:fs/promises';
import { createDb, type Database } from '@weighbridge/database';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { rebuildBuckets } from './rebuild.ts';

const MIGRATIONS = new URL('../../../database/migrations/', import.meta.url);
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;

beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {}, maxConnections: 1 });
  await sql`DROP SCHEMA public CASCADE`.execute(db);
  await sql`CREATE SCHEMA public`.execute(db);
  // Partitions must start in UTC, whatever the server's time zone.
  await sql`SET timezone = 'America/St_Johns'`.execute(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const migrateUpTo = async (from: string, to: string) => {
  for (const name of (await readdir(MIGRATIONS)).sort()) {
    if (name >= from && name < to)
      await sql.raw(await readFile(new URL(name, MIGRATIONS), 'utf8')).execute(db);
  }
};

it('the migration keeps every sum: buckets are unchanged, and equal their opening balance plus their rows', async () => {
  await migrateUpTo('0001', '0010');
  // 600 attempts over half a year, some with several counters, of principals with any characters; and one of an id that
  // contains no time. A bucket was opened with what had been spent before it.
  await sql`
    INSERT INTO usage_events (event_id, request_id, key_id, principal_id, model_requested, model, connector_id,
      input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano_usd,
      price_version, estimated, outcome, http_status, streamed, admitted_at, settled_at, duration_us, attribution,
      response_id, buckets)
    SELECT CASE n WHEN 600 THEN 'ffffffff-ffff-4fff-8fff-ffffffffffff' ELSE (
          lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7000800000' || lpad(to_hex(n), 10, '0')
        ) END::uuid, 'req_' || n / 2, 'key_1', principal, 'mock/echo', 'mock/echo', 'con_1', 1, 0, 0, 0, 1, n * 10, 1,
      false, 'success', 200, false, at, at, 1,
      CASE n % 3 WHEN 0 THEN '{}' ELSE jsonb_build_object('user', 'ü' || n % 5, 'workload_type', '') END, '',
      CASE n % 2 WHEN 0 THEN jsonb_build_array(own, parent) ELSE jsonb_build_array(own) END
    FROM generate_series(1, 600) AS n
    CROSS JOIN LATERAL (SELECT now() - n * interval '7 hours' AS at, 'a/b "c" ' || n % 3 AS principal) AS event
    CROSS JOIN LATERAL (SELECT
      jsonb_build_object('policy_id', 'pol_a', 'counter_version', 1, 'subject', 'principal:' || principal,
        'window_start', to_char(date_trunc('month', at, 'UTC') AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.000"Z"')
      ) AS own,
      jsonb_build_object('policy_id', 'pol_b', 'counter_version', 2, 'subject', 'policy',
        'window_start', '1970-01-01T00:00:00.000Z') AS parent) AS bucket`.execute(db);
  await sql`
    INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
    SELECT policy || '/' || version || '/' || (extract(epoch FROM start) * 1000)::bigint || '/' || counted, policy,
      version, counted, start, sum(cost_nano_usd)
    FROM (
      SELECT DISTINCT event_id, cost_nano_usd, bucket ->> 'policy_id' AS policy,
        (bucket ->> 'counter_version')::integer AS version, (bucket ->> 'window_start')::timestamptz AS start, counted
      FROM usage_events, jsonb_array_elements(buckets) AS bucket,
        LATERAL (VALUES (bucket ->> 'subject'), ('principal:' || principal_id)) AS subject (counted)
    ) AS counted
    GROUP BY policy, version, start, counted`.execute(db);
  await sql`
    UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 1000000 WHERE policy_id = 'pol_b'`.execute(db);
  await sql`
    INSERT INTO quarantined_messages (received_at, reason, payload) VALUES (now(), 'batch: unreadable', '\\x00ff'), (now(), 'batch: unreadable', '\\x00ff')`.execute(
    db,
  );
  const before = await sql<Record<string, unknown>>`
    SELECT bucket_key, spent_nano_usd FROM spend_buckets ORDER BY bucket_key`.execute(db);

  await migrateUpTo('0010', '0011');

  const after = await sql<Record<string, unknown>>`
    SELECT bucket_key, spent_nano_usd FROM spend_buckets ORDER BY bucket_key`.execute(db);
  expect(after.rows).toEqual(before.rows);
  // A rebuild requires the latest schema.
  await migrateUpTo('0011', '9999');
  expect(await rebuildBuckets(db, { apply: false })).toMatchObject({
    events: 599n,
    differingBuckets: 0,
    differingHours: 0,
  });
  const { rows: opened } = await sql<{ policy_id: string; opening: bigint }>`
    SELECT policy_id, sum(opening_nano_usd)::bigint AS opening FROM spend_buckets
    GROUP BY policy_id ORDER BY policy_id`.execute(db);
  // The cost of the row whose id contains no time, and the opening balances of pol_b's buckets.
  const buckets = before.rows.filter(({ bucket_key }) => String(bucket_key).startsWith('pol_b/')).length;
  expect(opened).toEqual([
    { policy_id: 'pol_a', opening: 6_000n },
    { policy_id: 'pol_b', opening: 12_000n + BigInt(buckets) * 1_000_000n },
  ]);

  const { rows: kept } = await sql<Record<string, number>>`
    SELECT count(*)::integer AS events, count(*) FILTER (WHERE attempt = 1)::integer AS requests,
      count(*) FILTER (WHERE attempt = 2)::integer AS retries, count(*) FILTER (WHERE policy_id = 'pol_a')::integer AS own
    FROM usage_events`.execute(db);
  // 1 | 2 3 | … | 598 599 | (600)
  expect(kept).toEqual([{ events: 599, requests: 300, retries: 299, own: 599 }]);
  const { rows: held } = await sql<
    Record<string, unknown>
  >`SELECT kind, state, reason FROM quarantined_usage`.execute(db);
  expect(held).toEqual([{ kind: 'batch', state: 'held', reason: 'batch: unreadable' }]);
  // Partitions for the current and the next two months, without a gap.
  const { rows: months } = await sql<{ partitions: number; months: number; last: boolean }>`
    SELECT count(*)::integer AS partitions,
      (12 * (max(year) - min(year)) + max(at) FILTER (WHERE newest) - max(at) FILTER (WHERE oldest) + 1)::integer AS months,
      max(at) FILTER (WHERE newest) = extract(month FROM now() AT TIME ZONE 'UTC' + interval '2 months') AS last
    FROM (
      SELECT substr(relname, 14, 4)::integer AS year, substr(relname, 19, 2)::integer AS at,
        relname = max(relname) OVER () AS newest, relname = min(relname) OVER () AS oldest
      FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = 'usage_events'::regclass
    ) AS partition`.execute(db);
  expect(months[0]?.partitions).toBeGreaterThanOrEqual(9);
  expect(months).toEqual([{ partitions: months[0]?.partitions, months: months[0]?.partitions, last: true }]);
});
