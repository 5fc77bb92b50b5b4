import { once } from 'node:events';
import { newUuid } from '@weighbridge/domain';
import {
  closeEpoch,
  markLost,
  recordUsage,
  recordWatermarks,
  registerProducer,
  retireProducer,
} from '@weighbridge/ledger';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { putInQuarantine } from '../../../test/quarantined.ts';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts } from '../../../test/usage.ts';
import { withinTimeout } from './ledgerQuery.ts';
import { createSpendExports } from './spend.service.ts';

let api: TestApi;
let ada: string;
beforeAll(async () => {
  api = await startTestApi();
  ada = (await api.issue({ principal_id: 'ada', scopes: ['usage:read'] })).key;
});
afterAll(() => api.close());
beforeEach(() => emptyLedger(api.db));

type Row = { bucket_start: string | null; group: Record<string, string | null>; cost_micro_usd: number };

async function spend(query: Record<string, string>, key = api.operatorKey) {
  const { status, body } = await api.call('GET', `/spend?${new URLSearchParams(query)}`, { key });
  return {
    status,
    body,
    rows: (body.data ?? []) as Row[],
    error: body.error as { code: string; message: string },
  };
}

async function csv(query: Record<string, string>, key = api.operatorKey, accept = 'text/csv') {
  const path = `/api/v1/spend?${new URLSearchParams(query)}`;
  const { status, text, headers } = await api.get(path, { key, headers: { accept } });
  return { status, body: text, headers };
}

const day = (text: string) => new Date(`2026-11-${text}Z`);

describe('GET /spend', () => {
  it('returns the current month by default, one row per group, with every field', async () => {
    await recordAttempts(api.db, [
      { request: 'req_1', costNano: 1_400n, outcome: 'upstream_error', admittedAt: day('20T08:00:00') },
      { request: 'req_1', costNano: 100n, estimated: true, admittedAt: day('20T08:00:01') },
      { principal: 'bob', costNano: 5n, admittedAt: new Date('2026-10-31T23:59:59.999Z') },
    ]);
    const { body } = await spend({ group_by: 'principal,model' });
    const measures = {
      requests: 1,
      attempts: 2,
      estimated_attempts: 1,
      failed_attempts: 1,
      estimated_requests: 1,
      errors: 1,
      input_tokens: 20,
      cache_read_tokens: 8,
      cache_write_tokens: 6,
      cache_write_1h_tokens: 4,
      output_tokens: 10,
      // The sum is rounded once: the two amounts alone would be 1 and 0.
      cost_micro_usd: 2,
      cost_nano_usd: '1500',
    };
    expect(body).toEqual({
      data: [
        {
          bucket_start: null,
          group: { principal: 'ada', model: 'mock/echo' },
          names: {},
          others: false,
          ...measures,
        },
      ],
      next_page_token: '',
      total: measures,
      from: '2026-11-01T00:00:00.000Z',
      to: '2026-11-20T10:00:00.000Z',
      timezone: 'UTC',
      bucket_as_of: expect.stringMatching(/^2026-1/),
      complete: true,
      lacks_other: false,
    });
  });

  it('is as of the query itself if the ledger is empty', async () => {
    const before = Date.now() - 60_000;
    const { body, rows } = await spend({ group_by: 'model' });
    expect(rows).toEqual([]);
    expect(Date.parse(String(body.bucket_as_of))).toBeGreaterThan(before);
  });

  it('divides days and months by the time zone', async () => {
    const at = [
      '2026-10-24T22:00:00Z',
      '2026-10-25T22:59:59.999Z',
      '2026-10-25T23:00:00Z',
      '2026-10-31T23:00:00Z',
    ];
    await recordAttempts(
      api.db,
      at.map((text) => ({ admittedAt: new Date(text) })),
    );
    const query = {
      from: '2026-10-01T00:00:00Z',
      to: '2026-11-30T00:00:00+01:00',
      timezone: 'Europe/Berlin',
    };
    const days = await spend({ ...query, bucket: 'day' });
    expect(days.rows.map((row) => [row.bucket_start, row.cost_micro_usd])).toEqual([
      // The day on which the clocks go back has 25 hours.
      ['2026-10-24T22:00:00.000Z', 2],
      ['2026-10-25T23:00:00.000Z', 1],
      ['2026-10-31T23:00:00.000Z', 1],
    ]);
    const months = await spend({ ...query, bucket: 'month', group_by: 'provider' });
    expect(months.rows.map((row) => [row.bucket_start, row.group.provider, row.cost_micro_usd])).toEqual([
      ['2026-09-30T22:00:00.000Z', 'mock', 3],
      ['2026-10-31T23:00:00.000Z', 'mock', 1],
    ]);
  });

  it('pages without losing or repeating a row, and accepts only its own page tokens', async () => {
    const users = Array.from({ length: 25 }, (_, n) => `user ${n}`);
    await recordAttempts(
      api.db,
      users.flatMap((user) => [
        { attribution: { user }, admittedAt: day('03T00:00:00') },
        { attribution: { user }, admittedAt: day('04T00:00:00') },
        { admittedAt: day('05T00:00:00') },
      ]),
    );
    const query = { group_by: 'user', bucket: 'day', page_size: '7' };
    const rows: Row[] = [];
    let token = '';
    do {
      const response = await spend({ ...query, page_token: token });
      rows.push(...response.rows);
      token = String(response.body.next_page_token);
    } while (token);
    const place = ({ bucket_start, group }: Row) => `${bucket_start} ${group.user}`;
    expect(rows.map(place)).toEqual([...new Set(rows.map(place))]);
    expect(rows).toHaveLength(51);
    expect(rows.at(-1)).toMatchObject({ group: { user: null }, cost_micro_usd: 25 });

    const first = await spend(query);
    const other = { ...query, page_token: String(first.body.next_page_token) };
    for (const changed of [{ bucket: 'month' }, { group_by: 'team' }, { group_by: 'user,team' }]) {
      expect((await spend({ ...other, ...changed })).error.code).toBe('invalid_page_token');
    }
    const forged = (...after: string[]) =>
      Buffer.from(JSON.stringify([JSON.stringify(['spend', 'day', 'UTC', 'user']), ...after])).toString(
        'base64url',
      );
    for (const token of [
      forged('x', '=a'),
      forged('2026-11-01'),
      forged('2026-11-01', 'a'),
      forged('2026-11-01', '=a'),
      forged('1', '=a'),
      forged('2026-11-01T00:00:00.000Z', '=\u0000'),
      forged('2026-11-01T00:00:00.000Z', '=\ud800'),
    ]) {
      expect((await spend({ ...query, page_token: token })).error.code).toBe('invalid_page_token');
    }
  });

  it('groups by the tier of service, also over whole hours', async () => {
    await recordAttempts(api.db, [
      { costNano: 1_000n, admittedAt: day('03T09:00:00') },
      { costNano: 2_000n, admittedAt: day('03T09:10:00'), details: { service_tier: 'priority' } },
      {
        costNano: 3_000n,
        admittedAt: day('04T09:10:00'),
        details: { service_tier: 'priority', speed: 'fast' },
      },
    ]);
    const { rows } = await spend({ group_by: 'service_tier', from: '2026-11-01T00:00:00Z' });
    expect(rows.map(({ group, cost_micro_usd }) => [group.service_tier, cost_micro_usd])).toEqual([
      [null, 1],
      ['priority', 5],
    ]);
  });

  it('groups and filters by labels with any key and value', async () => {
    const keys = [
      'cost center',
      "o'brien'); DROP TABLE usage_events; --",
      '"',
      '__proto__',
      'a,b',
      'a=b',
      '\\',
      'constructor',
    ];
    const labels = Object.fromEntries(keys.map((key, n) => [key, `v,${n}=\n"'`]));
    await recordAttempts(api.db, [{ attribution: { labels } }, {}]);
    const escaped = (text: string) => text.replace(/[\\,=]/g, '\\$&');
    for (const [key, value] of Object.entries(labels)) {
      const name = `label:${key}`;
      const { rows } = await spend({ group_by: `label:${key.replace(/[\\,]/g, '\\$&')},team` });
      expect(rows.map(({ group }) => group)).toEqual([
        Object.fromEntries([
          [name, null],
          ['team', null],
        ]),
        Object.fromEntries([
          [name, value],
          ['team', null],
        ]),
      ]);
      const one = await spend({ label: `${escaped(key)}=${escaped(value)}` });
      expect(one.rows).toMatchObject([{ cost_micro_usd: 1 }]);
    }
    expect(
      (await spend({ label: `${keys.map((key) => `${escaped(key)}=${escaped(labels[key] ?? '')}`)}` })).rows,
    ).toHaveLength(1);
    expect((await spend({ label: 'cost center=other' })).rows).toEqual([]);
  });

  it.each(['principal_id', 'key_id', 'policy_id', 'model', 'provider', 'team', 'project', 'env', 'user'])(
    'filters by %s',
    async (name) => {
      await recordAttempts(api.db, [
        {
          principal: 'p1',
          key: 'p1',
          policies: ['p1', 'parent'],
          model: 'p1/p1',
          attribution: { team: 'p1', project: 'p1', env: 'p1', user: 'p1' },
        },
        { costNano: 7_000n },
      ]);
      expect((await spend({ [name]: name === 'model' ? 'p1/p1' : 'p1' })).rows).toMatchObject([
        { cost_micro_usd: 1 },
      ]);
      expect((await spend({ [name]: "p1' OR '1'='1" })).rows).toEqual([]);
    },
  );

  it.each<[Record<string, string>, RegExp]>([
    [{ group_by: 'color' }, /principal, key, policy, model, provider, .*workload, label:<key>/],
    [{ group_by: 'model,' }, /group_by/],
    [{ group_by: 'label:' }, /group_by/],
    [{ group_by: 'label:\u0000' }, /group_by/],
    [{ group_by: 'a,'.repeat(10) }, /group_by/],
    [{ group_by: 'user,team,project,env,model,key,policy' }, /at most 6/],
    [{ bucket: 'year' }, /bucket/],
    [{ timezone: 'Europe/Atlantis' }, /IANA/],
    [{ from: 'yesterday' }, /from/],
    [{ from: '2026-11-20' }, /from/],
    [{ to: '2026-11-31T00:00:00Z' }, /to/],
    [{ from: '2026-11-20T10:00:00Z', to: '2026-11-20T10:00:00Z' }, /before/],
    [{ from: '2025-01-01T00:00:00Z' }, /400 days/],
    [{ from: '2026-01-01T00:00:00Z', bucket: 'hour' }, /92 days/],
    [{ label: 'team' }, /key=value/],
    [{ label: '=x' }, /key=value/],
    [{ team: 'a\u0000' }, /team/],
    [{ page_size: '0' }, /page_size/],
    [{ other: '1' }, /other/],
  ])('rejects %j', async (query, message) => {
    const { status, error } = await spend(query);
    expect([status, error.code]).toEqual([400, 'invalid_request']);
    expect(error.message).toMatch(message);
  });

  it("shows only the caller's own principal's spend, without the scope operator", async () => {
    await recordAttempts(api.db, [
      { costNano: 3_000n },
      { principal: 'bob', key: 'key_b', costNano: 9_000n },
    ]);
    expect((await spend({ group_by: 'principal' })).rows).toHaveLength(2);
    expect((await spend({ group_by: 'principal' }, ada)).rows).toMatchObject([
      { group: { principal: 'ada' }, cost_micro_usd: 3 },
    ]);
    expect((await spend({ principal_id: 'ada' }, ada)).rows).toMatchObject([{ cost_micro_usd: 3 }]);
    expect((await spend({ key_id: 'key_b' }, ada)).rows).toEqual([]);
    expect(await spend({ principal_id: 'bob' }, ada)).toMatchObject({
      status: 403,
      error: { code: 'principal_not_allowed' },
    });
    expect((await csv({ group_by: 'principal' }, ada)).body).not.toContain('bob');
    const narrow = await api.issue({ scopes: ['keys:read'] });
    expect((await spend({}, narrow.key)).error.code).toBe('insufficient_scope');
  });
});

describe('users beyond those with sums of their own', () => {
  const RANGE = { from: '2026-11-12T00:00:00Z', to: '2026-11-13T00:00:00Z' };
  beforeEach(() =>
    recordAttempts(
      api.db,
      Array.from({ length: 1_000 }, (_, n) => ({
        attribution: { user: `user ${n}` },
        admittedAt: day('12T10:30:00'),
      })),
    ),
  );

  it('count under (other), and leave all other sums as they are', async () => {
    const { body } = await spend({ ...RANGE, group_by: 'user', limit: '1' });
    expect(body.data).toMatchObject([
      { group: { user: '(other)' }, others: false, cost_micro_usd: 100, requests: 100 },
      { others: true, cost_micro_usd: 900 },
    ]);
    expect(body).toMatchObject({ lacks_other: false, complete: true, total: { cost_micro_usd: 1_000 } });
    expect((await spend({ ...RANGE, group_by: 'key' })).rows).toMatchObject([{ cost_micro_usd: 1_000 }]);
    expect((await spend({ ...RANGE, user: '(other)' })).rows).toMatchObject([{ cost_micro_usd: 100 }]);
  });

  it('are said to be lacking where a filter wants one, and are found where single attempts are read', async () => {
    const filter = { ...RANGE, user: 'user 950' };
    expect(await spend(filter)).toMatchObject({ rows: [], body: { lacks_other: true, complete: false } });
    expect((await csv(filter)).headers).toMatchObject({ 'x-svc-complete': 'false' });
    // Nobody else's report changes.
    const others = await spend({ ...filter, key_id: 'key_2' });
    expect(others.body).toMatchObject({ lacks_other: false, complete: true });
    expect((await spend(filter, ada)).body).toMatchObject({ lacks_other: true });
    const bob = (await api.issue({ principal_id: 'bob', scopes: ['usage:read'] })).key;
    expect((await spend(filter, bob)).body).toMatchObject({ lacks_other: false, complete: true });
    const next = { ...filter, from: RANGE.to, to: '2026-11-14T00:00:00Z' };
    expect((await spend(next)).body).toMatchObject({ lacks_other: false });
    expect((await spend({ ...next, compare: 'previous' })).body).toMatchObject({ lacks_other: true });
    const single = await spend({ ...filter, group_by: 'outcome' });
    expect(single).toMatchObject({ rows: [{ cost_micro_usd: 1 }], body: { lacks_other: false } });
    const listed = await api.call('GET', `/requests?${new URLSearchParams(filter)}`);
    expect(listed.body.data).toHaveLength(1);
  });
});

describe('whether a report is complete', () => {
  const RANGE = { from: '2026-11-10T00:00:00Z', to: '2026-11-11T00:00:00Z' };
  const isComplete = async (query: Record<string, string> = {}, key = api.operatorKey) =>
    (await spend({ ...RANGE, ...query }, key)).body.complete;
  beforeEach(async () => {
    await api.db.deleteFrom('producer_shards').execute();
    await api.db.deleteFrom('producers').execute();
    await api.db.deleteFrom('quarantined_usage').execute();
    await api.db.updateTable('ledger_floor').set({ dropped_before: null }).execute();
  });
  afterAll(async () => {
    await api.db.deleteFrom('producer_shards').execute();
    await api.db.deleteFrom('producers').execute();
    await api.db.deleteFrom('quarantined_usage').execute();
    await api.db.updateTable('ledger_floor').set({ dropped_before: null }).execute();
  });
  /** A proxy whose usage is known up to a time. */
  const startProxy = async (markAt: Date) => {
    const run = { producerId: newUuid(), epoch: newUuid() };
    await registerProducer(api.db, { ...run, name: 'pod', now: day('01T00:00:00') });
    await api.db.updateTable('producers').set({ mark_at: markAt }).where('epoch', '=', run.epoch).execute();
    return run;
  };

  it('it is once every proxy reported its usage up to the end of the range', async () => {
    expect(await isComplete()).toBe(true);
    const ahead = await startProxy(day('12T00:00:00'));
    await startProxy(day('11T00:00:00'));
    expect(await isComplete()).toBe(true);
    const late = await startProxy(day('10T23:59:59'));
    expect(await isComplete()).toBe(false);
    expect(await isComplete({ to: '2026-11-10T23:59:59Z' })).toBe(true);
    await recordWatermarks(api.db, [{ ...late, markAt: day('11T00:00:00'), seenAt: day('12T00:00:00') }]);
    expect(await isComplete()).toBe(true);
    expect(await isComplete({ to: '2026-11-12T00:00:00Z' })).toBe(false);
    // The range until now is never known whole while a proxy serves.
    expect(await isComplete({ to: new Date(Date.now() + 3_600_000).toISOString() })).toBe(false);
    await closeEpoch(api.db, { ...ahead, lastN: [0n, 0n, 0n, 0n], now: day('12T00:00:00') });
    expect(await isComplete()).toBe(true);
  });

  it('it is not while a proxy of that time is lost, until its loss is accepted', async () => {
    const run = await startProxy(day('10T12:00:00'));
    await markLost(api.db, { silentSince: day('20T00:00:00'), now: day('10T13:00:00') });
    expect(await isComplete()).toBe(false);
    // It was lost before the range began, or a day and more after it ended.
    expect(await isComplete({ from: '2026-11-10T13:00:01Z' })).toBe(true);
    expect(await isComplete({ from: '2026-11-01T00:00:00Z', to: '2026-11-09T12:00:00Z' })).toBe(true);
    await retireProducer(api.db, { epoch: run.epoch, retiredBy: 'operator', now: day('11T00:00:00') });
    expect(await isComplete()).toBe(true);
  });

  it('it is not while numbered events are missing for a minute', async () => {
    const run = await startProxy(day('11T00:00:00'));
    const receive = (firstN: bigint) =>
      recordUsage(api.db, { events: [], refused: [], received: [{ ...run, shard: 0, firstN, count: 1 }] });
    await receive(2n);
    expect(await isComplete()).toBe(true);
    await api.db
      .updateTable('producer_shards')
      .set({ gap_since: new Date(Date.now() - 61_000) })
      .execute();
    expect(await isComplete()).toBe(false);
    await receive(1n);
    expect(await isComplete()).toBe(true);
  });

  it("it is not while usage that may be the range's is in quarantine", async () => {
    const id = await putInQuarantine(api.db, { principalId: 'bob' });
    const end = () =>
      api.db
        .updateTable('producers')
        .set({ mark_at: day('19T00:00:00') })
        .execute();
    await end();
    expect(await isComplete()).toBe(false);
    expect(await isComplete({ principal_id: 'ada' })).toBe(true);
    expect(await isComplete({}, ada)).toBe(true);
    await api.call('POST', `/quarantine/${id}/discard`, { body: { note: 'a test' } });
    expect(await isComplete()).toBe(true);
    await putInQuarantine(api.db);
    await end();
    expect(await isComplete({}, ada)).toBe(false);
  });

  it('it is not if the rows that it reads were dropped; hourly sums stay', async () => {
    await api.db
      .updateTable('ledger_floor')
      .set({ dropped_before: day('11T00:00:00') })
      .execute();
    expect(await isComplete()).toBe(true);
    expect(await isComplete({ label: 'a=b' })).toBe(false);
    expect(await isComplete({ group_by: 'service_tier' })).toBe(false);
    expect(await isComplete({ from: '2026-11-10T00:30:00Z' })).toBe(false);
    expect(await isComplete({ label: 'a=b', from: '2026-11-11T00:00:00Z', to: '2026-11-12T00:00:00Z' })).toBe(
      true,
    );
  });
});

it('a query that exceeds the statement timeout is rejected as too broad', async () => {
  const slow = api.db.transaction().execute(async (tx) => {
    await sql`SET LOCAL statement_timeout = 20`.execute(tx);
    await sql`SELECT pg_sleep(5)`.execute(tx);
  });
  await expect(withinTimeout(slow)).rejects.toMatchObject({
    code: 'query_too_broad',
    kind: 'invalid_request',
  });
});

describe('spend that answers questions', () => {
  const RANGE = { from: '2026-11-10T00:00:00Z', to: '2026-11-20T00:00:00Z' };
  const teams = async () =>
    await recordAttempts(api.db, [
      ...['a', 'b', 'b', 'c', 'c', 'c', 'd'].map((team) => ({
        attribution: { team },
        admittedAt: day('12T00:00:00'),
      })),
      { attribution: { team: 'd' }, costNano: 9_000n, admittedAt: day('13T00:00:00') },
      // The ten days before.
      { attribution: { team: 'c' }, costNano: 4_000n, admittedAt: day('02T00:00:00') },
      { attribution: { team: 'z' }, costNano: 7_000n, admittedAt: day('03T00:00:00') },
    ]);
  const shown = (rows: Row[]) => rows.map((row) => [row.group.team, row.cost_micro_usd]);

  it('sorts by any measure, also over pages', async () => {
    await teams();
    const query = { ...RANGE, group_by: 'team' };
    expect(shown((await spend({ ...query, sort: '-cost' })).rows)).toEqual([
      ['d', 10],
      ['c', 3],
      ['b', 2],
      ['a', 1],
    ]);
    expect(shown((await spend({ ...query, sort: 'requests' })).rows).map(([team]) => team)).toEqual([
      'a',
      'b',
      'd',
      'c',
    ]);
    const rows: Row[] = [];
    for (let token = ''; ; ) {
      const { body, rows: more } = await spend({
        ...query,
        sort: '-cost',
        page_size: '1',
        page_token: token,
      });
      rows.push(...more);
      expect('total' in body).toBe(token === '');
      token = String(body.next_page_token);
      if (token === '') break;
    }
    expect(shown(rows).map(([team]) => team)).toEqual(['d', 'c', 'b', 'a']);
    const { body } = await spend({ ...query, sort: '-cost', page_size: '1' });
    const foreign = await spend({ ...query, page_token: String(body.next_page_token) });
    expect(foreign.error.code).toBe('invalid_page_token');
  });

  it('shows the first groups and the others as one row, in each bucket', async () => {
    await teams();
    const query = { ...RANGE, group_by: 'team', limit: '2' };
    const { body, rows } = await spend(query);
    expect(body.data).toMatchObject([
      { group: { team: 'd' }, others: false, cost_micro_usd: 10 },
      { group: { team: 'c' }, others: false, cost_micro_usd: 3 },
      { group: { team: null }, others: true, cost_micro_usd: 3, requests: 3 },
    ]);
    expect(body.total).toMatchObject({ cost_micro_usd: 16, requests: 8 });
    expect(rows).toHaveLength(3);
    expect((await spend({ ...query, limit: '50' })).rows).toHaveLength(4);
    const days = await spend({ ...query, bucket: 'day' });
    expect(days.body.data).toMatchObject([
      { bucket_start: '2026-11-12T00:00:00.000Z', group: { team: 'c' } },
      { group: { team: 'd' }, cost_micro_usd: 1 },
      { others: true },
      { bucket_start: '2026-11-13T00:00:00.000Z', group: { team: 'd' }, cost_micro_usd: 9 },
    ]);
  });

  it('compares with the range before', async () => {
    await teams();
    const { body } = await spend({ ...RANGE, group_by: 'team', limit: '2', compare: 'previous' });
    expect(body.data).toMatchObject([
      { group: { team: 'd' }, previous: { cost_micro_usd: 0, requests: 0, attempts: 0 } },
      { group: { team: 'c' }, previous: { cost_micro_usd: 4, requests: 1 } },
      { others: true, previous: { cost_micro_usd: 7, cost_nano_usd: '7000' } },
    ]);
    expect(body.total).toMatchObject({ cost_micro_usd: 16, previous: { cost_micro_usd: 11, requests: 2 } });
  });

  it('divides weeks from Monday', async () => {
    await recordAttempts(api.db, [
      { admittedAt: day('15T23:59:59') },
      { admittedAt: day('16T00:00:00') },
      { admittedAt: day('19T00:00:00') },
    ]);
    const { rows } = await spend({ ...RANGE, bucket: 'week' });
    expect(rows.map((row) => [row.bucket_start, row.cost_micro_usd])).toEqual([
      ['2026-11-09T00:00:00.000Z', 1],
      ['2026-11-16T00:00:00.000Z', 2],
    ]);
  });

  it('groups by connector, profile, session and outcome, with names beside ids', async () => {
    const { body: policy } = await api.call('POST', '/policies', { body: { name: 'research' } });
    const key = await api.issue({ name: 'notebook' });
    const [connector] = (await api.call('GET', '/connectors')).body.data as { id: string; name: string }[];
    await recordAttempts(api.db, [
      {
        key: key.id,
        policies: [String(policy.id)],
        connector: connector?.id ?? '',
        attribution: { session_id: 's1' },
        outcome: 'client_gone',
      },
      { modelRequested: 'router/chat' },
    ]);
    const { body } = await spend({ group_by: 'key,policy,connector,profile,session,outcome' });
    expect(body.data).toMatchObject(
      [
        {
          group: { key: 'key_1', profile: 'chat', session: null, outcome: 'success' },
          names: { key: null, policy: null, connector: null },
        },
        {
          group: {
            key: key.id,
            profile: null,
            session: 's1',
            outcome: 'client_gone',
            connector: connector?.id,
          },
          names: { key: 'notebook', policy: 'research', connector: connector?.name },
        },
      ].sort((a, b) => (a.group.key < b.group.key ? -1 : 1)),
    );
    await api.call('DELETE', `/policies/${String(policy.id)}`);
    expect((await spend({ group_by: 'policy', key_id: key.id })).body.data).toMatchObject([
      { names: { policy: 'research' } },
    ]);
    const exported = await csv({ group_by: 'key', key_id: key.id });
    const [head, line] = exported.body.split('\r\n');
    expect([head?.split(',').at(-1), line?.split(',').at(-1)]).toEqual(['key_name', 'notebook']);
  });

  it('of a policy includes what is governed by policies under it, however deep, also in requests', async () => {
    const create = async (name: string, parent?: unknown) =>
      String(
        (
          await api.call('POST', '/policies', {
            body: { name, ...(parent ? { parent_policy_id: parent } : {}) },
          })
        ).body.id,
      );
    const company = await create('company');
    const team = await create('team', company);
    const person = await create('person', team);
    const other = await create('other');
    await recordAttempts(
      api.db,
      [company, team, person, other].map((policy) => ({
        policies: [policy],
        admittedAt: day('12T00:30:00'),
      })),
    );
    const cost = async (policy_id: string) => (await spend({ ...RANGE, policy_id })).rows[0]?.cost_micro_usd;
    expect([await cost(company), await cost(team), await cost(person), await cost(other)]).toEqual([
      3, 2, 1, 1,
    ]);
    expect((await spend({ ...RANGE, policy_id: company, label: 'a=b' })).rows).toEqual([]);
    const listed = await api.call('GET', `/requests?policy_id=${team}&from=${RANGE.from}&to=${RANGE.to}`);
    expect(listed.body.data).toHaveLength(2);
  });

  it('groups by the profile that an alias stands for, that of the policy before that of all', async () => {
    const made = async (name: string) =>
      (
        await api.call('POST', '/profiles', {
          body: { name, strategy: 'ordered', targets: [{ model: 'mock/echo' }] },
        })
      ).status;
    expect([await made('fast'), await made('slow')]).toEqual([201, 201]);
    const { body: policy } = await api.call('POST', '/policies', { body: { name: 'aliased' } });
    for (const body of [
      { name: 'my-model', target: 'router/fast' },
      { name: 'my-model', target: 'router/slow', policy_id: policy.id },
    ]) {
      expect((await api.call('POST', '/aliases', { body })).status).toBe(201);
    }
    await recordAttempts(api.db, [
      { modelRequested: 'my-model', admittedAt: day('12T00:00:00') },
      { modelRequested: 'my-model', policies: [String(policy.id)], admittedAt: day('12T00:00:01') },
      { modelRequested: 'mock/echo', admittedAt: day('12T00:00:02') },
    ]);
    const { rows } = await spend({ ...RANGE, group_by: 'profile' });
    expect(rows.map(({ group }) => group.profile)).toEqual([null, 'fast', 'slow']);
  });

  it.each([
    [{ sort: 'price' }, /sort/],
    [{ limit: '0', group_by: 'team' }, /limit/],
    [{ limit: '101', group_by: 'team' }, /limit/],
    [{ limit: '5' }, /group_by/],
    [{ limit: '5', group_by: 'team', page_size: '5' }, /page_size/],
    [{ compare: 'next' }, /compare/],
    [{ compare: 'previous', bucket: 'day' }, /compare/],
  ])('rejects %j', async (query, message) => {
    const { status, error } = await spend(query as Record<string, string>);
    expect([status, error.message]).toEqual([400, expect.stringMatching(message)]);
  });
});

describe('spend as CSV', () => {
  it('has a header, quotes values where needed, and contains no formulas', async () => {
    const users = ['=HYPERLINK("x")', '+1', '-1', '@x', '\tx', '\rx', 'a "b", c', 'plain', 'ü\nü'];
    await recordAttempts(
      api.db,
      users.map((user) => ({ attribution: { user } })),
    );
    const { status, body, headers } = await csv({ group_by: 'user,team', bucket: 'month' });
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': 'attachment; filename="spend.csv"',
      vary: 'accept',
    });
    const [head, ...lines] = body.split('\r\n');
    expect(head).toBe(
      'bucket_start,user,team,requests,attempts,estimated_requests,errors,input_tokens,cache_read_tokens,cache_write_tokens,cache_write_1h_tokens,output_tokens,cost_micro_usd,cost_nano_usd',
    );
    const figures = ',,1,1,0,0,10,4,3,2,5,1,1000';
    expect(lines.sort()).toEqual(
      [`'+1`, `'-1`, `"'=HYPERLINK(""x"")"`, `'@x`, `'\tx`, `"'\rx"`, `"a ""b"", c"`, 'plain', `"ü\nü"`]
        .map((user) => `2026-11-01T00:00:00.000Z,${user}${figures}`)
        .concat('')
        .sort(),
    );
  });

  it('has all rows, without pages', async () => {
    const users = Array.from({ length: 1_700 }, (_, n) => `u${n}`);
    await recordAttempts(
      api.db,
      users.map((user, n) => ({ key: `key_${n % 2}`, attribution: { user } })),
    );
    const { body } = await csv({ group_by: 'user' });
    expect(body.trimEnd().split('\r\n')).toHaveLength(1 + users.length);
    expect((await csv({ group_by: 'team' }, ada)).body.split('\r\n')).toHaveLength(3);
    expect((await csv({ user: 'nobody', group_by: 'team' })).body.split('\r\n')).toHaveLength(2);
  });

  it('is rejected like JSON, before the first byte', async () => {
    expect((await csv({ group_by: 'color' })).status).toBe(400);
    expect((await csv({ page_size: '5' })).status).toBe(400);
    const other = await csv({}, api.operatorKey, 'application/xml');
    expect([other.status, JSON.parse(other.body).error.code]).toEqual([406, 'not_acceptable']);
  });

  it('releases its connections, in sequence and in parallel', async () => {
    await recordAttempts(api.db, [{}]);
    for (let n = 0; n < 12; n++) expect((await csv({ group_by: 'user' })).status).toBe(200);
    const several = await Promise.all(Array.from({ length: 8 }, () => csv({ group_by: 'user' })));
    for (const { status } of several) expect([200, 503]).toContain(status);
    expect((await csv({ group_by: 'user' })).status).toBe(200);
  });

  it('releases its connection when the client disconnects, before the first byte or later', async () => {
    const users = Array.from({ length: 1_500 }, (_, n) => `${n} ${'x'.repeat(200)}`);
    await recordAttempts(
      api.db,
      users.map((user) => ({ attribution: { user } })),
    );
    const exports = createSpendExports({ db: api.db, now: () => api.now });
    const operator = {
      identity: { kind: 'key' as const, keyId: '', graceEndsAt: null },
      principalId: 'operator',
      scopes: ['operator'],
      expiresAt: null,
      sealingKey: () => Buffer.alloc(0),
    };
    const open = () => exports.open(operator, { group_by: 'user' });
    // The connection is released a moment before the export counts as ended.
    const opened = async (): ReturnType<typeof open> => {
      for (;;) {
        const stream = await open().catch(() => undefined);
        if (stream) return stream;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const expectOpen = async (count: bigint) => {
      const { rows } = await sql<{ open: bigint }>`
        SELECT count(*) AS open FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'`.execute(api.db);
      expect(rows).toEqual([{ open: count }]);
    };
    for (let n = 0; n < 15; n++) {
      const stream = await opened();
      if (n % 2) await once(stream, 'readable');
      // It reads no further than its consumer: the cursor is still open.
      await expectOpen(1n);
      stream.destroy();
      await eventually(() => expectOpen(0n));
    }
    const running = [await opened(), await opened(), await opened()];
    await expect(open()).rejects.toMatchObject({ code: 'too_many_exports' });
    for (const stream of running) stream.destroy();
    await eventually(async () => (await open()).destroy());
  });
});
