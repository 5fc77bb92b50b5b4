import { createDb, type Database } from '@weighbridge/database';
import { calendarEdges } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { costOf } from '../test/explain.ts';
import type { LedgerFilter } from './ledgerFilter.ts';
import { findRequests, type RequestFilter, type RequestPosition, requestsSql } from './requests.ts';
import { readSpendRows, type SpendQuery, spendSql } from './spendBreakdown.ts';

const ROWS = 100_000;
const FROM = new Date('2026-01-01T00:00:00Z');
/** One attempt in each ten seconds. */
const TO = new Date(FROM.getTime() + ROWS * 10_000);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  await sql`
    INSERT INTO usage_events (event_id, request_id, key_id, principal_id, buckets, model_requested, model, connector_id,
      input_tokens, cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, output_tokens, cost_nano_usd,
      price_version, estimated, outcome, http_status, streamed, admitted_at, settled_at, first_byte_us, duration_us,
      attribution, response_id)
    SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid,
      -- Each tenth request took two attempts.
      'req_' || (n - (n % 10) / 9), 'key_' || n % 10, 'principal_' || n % 20, '[{"policy_id":"pol_a"}]',
      'mock/m' || n % 7, 'mock/m' || n % 7, 'con_1', 1, 0, 0, 0, 1, n, 1, false, 'success', 200, false,
      ${FROM}::timestamptz + n * interval '10 seconds', ${FROM}::timestamptz + n * interval '11 seconds', 1, 1,
      jsonb_build_object('user', 'user_' || n % 1000, 'session_sha256', md5((n / 100)::text)), ''
    FROM generate_series(0, ${ROWS - 1}::integer) AS n`.execute(db);
  await sql`VACUUM ANALYZE usage_events`.execute(db);
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

const SIZE = 101;

/** What the first page costs, and one that begins nine tenths further on. */
async function firstAndLate(filter: RequestFilter) {
  const [oldest] = await findRequests(
    db,
    { ...filter, to: new Date(FROM.getTime() + ROWS * 1_000) },
    { after: undefined, limit: 1 },
  );
  const after: RequestPosition | undefined = oldest?.position;
  expect(after).toBeDefined();
  const cost = (position: RequestPosition | undefined) =>
    costOf(db, requestsSql(filter, { after: position, limit: SIZE }));
  return { first: await cost(undefined), late: await cost(after) };
}

describe('a page of requests', () => {
  it.each<[string, Partial<RequestFilter>, string]>([
    ['of all', {}, 'usage_events_by_admission'],
    ['of a principal', { principalId: 'principal_3' }, 'usage_events_by_principal'],
    ['of a key', { keyId: 'key_3' }, 'usage_events_by_key'],
    ['of a model', { model: 'mock/m3' }, 'usage_events_by_admission'],
  ])(
    '%s is read by an index, and costs the same near the end as at the start',
    async (_what, narrow, index) => {
      const { first, late } = await firstAndLate({ from: FROM, to: TO, ...narrow });
      for (const { indexes, nodes } of [first, late]) {
        expect(indexes).toContain(index);
        expect(nodes).not.toContain('Seq Scan');
        expect(nodes).not.toContain('Sort');
      }
      expect(late.blocks).toBeLessThan(first.blocks * 1.1 + 10);
      // Far from the thousands that all rows are on.
      expect(first.blocks).toBeLessThan(SIZE * 50);
    },
  );

  it('of one request or one session is found without reading the others', async () => {
    const one = (narrow: Partial<RequestFilter>) =>
      costOf(db, requestsSql({ from: new Date(0), to: TO, ...narrow }, { after: undefined, limit: SIZE }));
    expect((await one({ requestId: 'req_77777' })).blocks).toBeLessThan(50);
    const { rows } = await sql<{ hash: string }>`SELECT md5('777') AS hash`.execute(db);
    expect((await one({ sessionSha256: rows[0]?.hash ?? '' })).blocks).toBeLessThan(2_000);
  });
});

describe('a page of spend', () => {
  const day = (n: number) => new Date(FROM.getTime() + n * 86_400_000);
  const query = (filter: LedgerFilter): SpendQuery => ({
    filter,
    groupBy: ['user'],
    bucketEdges: calendarEdges('day', 'UTC', filter.from, filter.to),
  });

  it('of some days reads these days alone, by an index', async () => {
    const cost = await costOf(db, spendSql(query({ from: day(2), to: day(3) }), undefined));
    expect(cost.indexes).toEqual(['usage_events_by_admission']);
    expect(cost.nodes).not.toContain('Seq Scan');
    const whole = await costOf(db, spendSql(query({ from: FROM, to: TO }), undefined));
    expect(cost.blocks).toBeLessThan(whole.blocks / 5);
  });

  it('never costs more for being late: the buckets before it are not read again', async () => {
    const all = query({ from: FROM, to: TO });
    const rows = await readSpendRows(db, all, { after: undefined, limit: 11_000 });
    const cost = async (after: readonly string[] | undefined) =>
      (await costOf(db, sql`${spendSql(all, after)} LIMIT ${SIZE}`)).blocks;
    const first = await cost(undefined);
    expect(await cost(rows.at(5_500)?.position)).toBeLessThan(first * 1.1);
    expect(await cost(rows.at(10_500)?.position)).toBeLessThan(first / 4);
  });
});
