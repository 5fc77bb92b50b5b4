import { createDb, type Database } from '@weighbridge/database';
import { calendarEdges } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { costOf } from '../../test/explain.ts';
import { openMonth } from '../../test/ledger.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import type { LedgerFilter } from '../spend/ledgerFilter.ts';
import { readSpendRows } from '../spend/spendBreakdown.ts';
import type { SpendQuery } from '../spend/spendQuery.ts';
import { spendSql } from '../spend/spendSql.ts';
import { type RequestFilter, type RequestPosition, requestsOfKeysSql, requestsSql } from './attemptsSql.ts';
import { findRequests } from './requests.ts';

const ROWS = 40_000;
const FROM = new Date('2026-01-01T00:00:00Z');
/** One attempt every 225 seconds, in partitions of four months. */
const STEP_MS = 225_000;
const TO = new Date(FROM.getTime() + ROWS * STEP_MS);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  await openMonth(db, FROM);
  await sql`
    INSERT INTO usage_events (event_id, request_id, key_id, principal_id, policy_id, bucket_keys, model_requested, model,
      connector_id, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens,
      cost_nano_usd, price_version, estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us,
      duration_us, attribution, response_id)
    SELECT (left(uuid_from(at)::text, 14) || '7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      -- Each tenth request took two attempts.
      'req_' || (n - (n % 10) / 9), 'key_' || n % 10, 'principal_' || n % 10, 'pol_a', '{pol_a/1/0/policy}',
      'mock/m' || n % 7, 'mock/m' || n % 7, 'con_1', 1, 0, 0, 0, 1, n, 1, false, 'success', 200, false,
      at, at + interval '1 second', 1, 1,
      jsonb_build_object('user', 'user_' || n % 400, 'session_sha256', md5((n / 100)::text)), ''
    FROM generate_series(0, ${ROWS - 1}::integer) AS n
    CROSS JOIN LATERAL (SELECT ${FROM}::timestamptz + n * ${`${STEP_MS} milliseconds`}::interval) AS made (at)`.execute(
    db,
  );
  await rebuildBuckets(db, { apply: true });
  await sql`VACUUM ANALYZE`.execute(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const SIZE = 101;

/** The cost of the first page, and of one that starts after nine tenths of the rows. */
async function firstAndLate(filter: RequestFilter) {
  const {
    requests: [oldest],
  } = await findRequests(
    db,
    { ...filter, to: new Date(FROM.getTime() + (ROWS * STEP_MS) / 10) },
    { after: undefined, limit: 1 },
  );
  const after: RequestPosition | undefined = oldest?.position;
  expect(after).toBeDefined();
  const cost = (position: RequestPosition | undefined) =>
    costOf(db, requestsSql(filter, { after: position, limit: SIZE }));
  return { first: await cost(undefined), late: await cost(after) };
}

describe('a page of requests', () => {
  it.each<[string, Partial<RequestFilter>, RegExp]>([
    ['of all', {}, /^usage_events_2026_0[1-4]_admitted_at_event_id_idx$/],
    [
      'of a principal',
      { principalId: 'principal_3' },
      /^usage_events_2026_0[1-4]_principal_id_admitted_at_event_id_idx$/,
    ],
    ['of a key', { keyId: 'key_3' }, /^usage_events_2026_0[1-4]_key_id_admitted_at_event_id_idx$/],
    ['of a model', { model: 'mock/m3' }, /^usage_events_2026_0[1-4]_admitted_at_event_id_idx$/],
  ])(
    "%s is read by each month's index, and costs the same near the end as at the start",
    async (_what, narrow, index) => {
      const { first, late } = await firstAndLate({ from: FROM, to: TO, ...narrow });
      for (const { indexes, nodes } of [first, late]) {
        expect(indexes.filter((name) => index.test(name)).length).toBeGreaterThan(0);
        expect(nodes).not.toContain('Seq Scan');
        expect(nodes).not.toContain('Sort');
      }
      expect(late.blocks).toBeLessThan(first.blocks * 1.1 + 10);
      // Far fewer than the thousands of pages of all rows.
      expect(first.blocks).toBeLessThan(SIZE * 50);
    },
  );

  it('of a rare model reads no more than the keys and hours that the sums name', async () => {
    const keyHours = Array.from({ length: 20 }, (_, n) => ({
      hour: new Date(FROM.getTime() + n * 36 * 3_600_000),
      keyId: 'key_3',
    }));
    const rare = requestsOfKeysSql({ from: FROM, to: TO, model: 'mock/m3' }, keyHours, {
      after: { admittedAt: TO, eventId: 'ffffffff-ffff-7fff-bfff-ffffffffffff' },
      limit: SIZE,
    });
    const { indexes, nodes, blocks } = await costOf(db, rare);
    expect(indexes).toContain('usage_events_2026_01_key_id_admitted_at_event_id_idx');
    expect(nodes).not.toContain('Seq Scan');
    expect(blocks).toBeLessThan(keyHours.length * 50);
  });

  it('of attempts that failed or were estimated reads only those', async () => {
    for (const narrow of [{ outcome: 'unknown' }, { estimated: true }]) {
      const { nodes, blocks } = await costOf(
        db,
        requestsSql({ from: FROM, to: TO, ...narrow }, { after: undefined, limit: SIZE, walk: 5_000 }),
      );
      expect(nodes).not.toContain('Seq Scan');
      expect(blocks).toBeLessThan(50);
    }
  });

  it('for one request or session does not read the others', async () => {
    const one = (narrow: Partial<RequestFilter>) =>
      costOf(db, requestsSql({ from: new Date(0), to: TO, ...narrow }, { after: undefined, limit: SIZE }));
    expect((await one({ requestId: 'req_37777' })).blocks).toBeLessThan(50);
    const { rows } = await sql<{ hash: string }>`SELECT md5('377') AS hash`.execute(db);
    const sessionSha256 = rows[0]?.hash ?? '';
    expect((await one({ sessionSha256 })).blocks).toBeLessThan(2_000);
    expect((await one({ sessionSha256: 'none', principalId: 'principal_3' })).blocks).toBeLessThan(50);
  });
});

describe('a page of spend', () => {
  const day = (n: number) => new Date(FROM.getTime() + n * 86_400_000);
  /** Days that are not known whole are read from hours. */
  const never = { days: new Date(8.64e15), totals: new Date(8.64e15) };
  const query = (filter: LedgerFilter): SpendQuery => ({
    filter,
    groupBy: ['user'],
    bucketEdges: calendarEdges('day', 'UTC', filter.from, filter.to),
  });

  it('reads whole hours from the sums by hour, and only the ends from the rows', async () => {
    const cost = await costOf(
      db,
      spendSql(query({ from: FROM, to: new Date(TO.getTime() - 1) }), undefined, never),
    );
    expect(cost.blocks).toBeLessThan(5_000);
    const short = { from: new Date(FROM.getTime() + 1_800_000), to: day(1) };
    const { indexes, nodes, blocks } = await costOf(db, spendSql(query(short), undefined, never));
    expect(indexes).toContain('usage_by_hour_pkey');
    expect(indexes).toContain('usage_events_2026_01_admitted_at_event_id_idx');
    expect(nodes).not.toContain('Seq Scan');
    expect(blocks).toBeLessThan(200);
  });

  it('for some days reads only these days, by an index', async () => {
    for (const labels of [[], [['a', '1']] as const]) {
      const cost = await costOf(
        db,
        spendSql(query({ from: day(40), to: day(41), labels }), undefined, never),
      );
      expect(cost.nodes).not.toContain('Seq Scan');
      const whole = await costOf(db, spendSql(query({ from: FROM, to: TO, labels }), undefined, never));
      expect(cost.blocks).toBeLessThan(whole.blocks / 5);
    }
  });

  it('skips the partitions of earlier months', async () => {
    const labels = [['a', '1']] as const;
    const { indexes } = await costOf(
      db,
      spendSql(query({ from: day(40), to: day(41), labels }), undefined, never),
    );
    expect(indexes).not.toContain('usage_events_2026_01_admitted_at_event_id_idx');
    expect(indexes).toContain('usage_events_2026_02_admitted_at_event_id_idx');
  });

  it('costs no more for being a later page: earlier buckets are not read again', async () => {
    const all = query({ from: FROM, to: TO });
    const rows = await readSpendRows(db, all, { after: undefined, limit: 200_000 });
    const cost = async (after: readonly string[] | undefined) =>
      (await costOf(db, sql`${spendSql(all, after, never)} LIMIT ${SIZE}`)).blocks;
    const first = await cost(undefined);
    expect(await cost(rows.at(rows.length / 2)?.position)).toBeLessThan(first * 1.1);
    expect(await cost(rows.at(rows.length * 0.95)?.position)).toBeLessThan(first / 4);
  });
});
