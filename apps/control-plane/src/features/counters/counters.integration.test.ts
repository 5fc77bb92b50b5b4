import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const MONTH_MS = BigInt(Date.parse('2026-11-01T00:00:00Z'));

async function policyOf(fields: Json): Promise<string> {
  const { body } = await api.call('POST', '/policies', {
    body: { name: 'counted', window: 'month', limit_micro_usd: 10, ...fields },
  });
  return String(body.id);
}

/** Spends, as the key of a principal would. */
async function spend(policyId: string, subject: string, costNano: bigint, principal: string, key = 'key_x') {
  await recordAttempts(api.db, [
    {
      principal,
      key,
      costNano,
      buckets: [{ policyId, counterVersion: 1, subject, windowStartMs: MONTH_MS }],
    },
  ]);
}

async function counters(policyId: string, query: Record<string, string> = {}, key = api.operatorKey) {
  const { status, body } = await api.call(
    'GET',
    `/policies/${policyId}/counters?${new URLSearchParams(query)}`,
    {
      key,
    },
  );
  return { status, body, data: (body.data ?? []) as Json[] };
}

describe('the counters of a policy', () => {
  it('show what each principal spent, holds and has left, in any order and over pages', async () => {
    const id = await policyOf({ counter_scope: 'principal' });
    for (const [n, name] of ['ada', 'bob', 'eve/x', 'carl'].entries()) {
      await spend(id, `principal:${name}`, BigInt(n + 1) * 2_000n, name);
    }
    await sql`UPDATE spend_buckets SET leased_nano_usd = 3000 WHERE policy_id = ${id} AND subject = 'principal:bob'`.execute(
      api.db,
    );
    const { body, data } = await counters(id);
    expect(body).toMatchObject({
      policy_id: id,
      policy_name: 'counted',
      counter_scope: 'principal',
      window_start: '2026-11-01T00:00:00.000Z',
      reset: '2026-12-01T00:00:00.000Z',
    });
    expect(
      data.map((one) => [
        one.principal_id,
        one.spent_micro_usd,
        one.leased_micro_usd,
        one.headroom_micro_usd,
      ]),
    ).toEqual([
      ['carl', 8, 0, 2],
      ['eve/x', 6, 0, 4],
      ['bob', 4, 3, 3],
      ['ada', 2, 0, 8],
    ]);
    const names = async (query: Record<string, string>) =>
      (await counters(id, query)).data.map((one) => one.principal_id);
    expect(await names({ sort: 'spent' })).toEqual(['ada', 'bob', 'eve/x', 'carl']);
    expect((await names({ sort: '-leased' }))[0]).toBe('bob');
    expect(await names({ principal_id: 'bob' })).toEqual(['bob']);
    const paged: unknown[] = [];
    for (let token = ''; ; ) {
      const { body, data } = await counters(id, { page_size: '1', page_token: token });
      paged.push(...data.map((one) => one.principal_id));
      token = String(body.next_page_token);
      if (token === '') break;
    }
    expect(paged).toEqual(['carl', 'eve/x', 'bob', 'ada']);
    // The next window starts at zero.
    const before = api.now;
    api.now = new Date('2026-12-02T00:00:00Z');
    expect((await counters(id)).data).toEqual([]);
    api.now = before;
  });

  it("show keys with their names and principals, and the policy's one counter", async () => {
    const byKey = await policyOf({ counter_scope: 'key' });
    const key = await api.issue({ name: 'notebook', principal_id: 'ada', policy_id: byKey });
    await spend(byKey, `key:${key.id}`, 4_000n, 'ada', key.id);
    // The principal's own sum is no counter of this policy.
    expect((await counters(byKey)).data).toMatchObject([
      { key_id: key.id, key_name: 'notebook', principal_id: 'ada', spent_micro_usd: 4, limit_micro_usd: 10 },
    ]);
    const pooled = await policyOf({ counter_scope: 'policy', limit_micro_usd: null });
    await spend(pooled, 'policy', 12_000n, 'ada');
    expect((await counters(pooled)).data).toEqual([
      {
        counter: 'policy',
        principal_id: null,
        key_id: null,
        key_name: null,
        value: null,
        value_sha256: null,
        spent_micro_usd: 12,
        leased_micro_usd: 0,
        limit_micro_usd: null,
        headroom_micro_usd: null,
        override: null,
        last_used_at: expect.any(String),
        reset: '2026-12-01T00:00:00.000Z',
      },
    ]);
  });

  it('show a caller without the scope operator its own counters, of the policy that governs it', async () => {
    const mine = await policyOf({ counter_scope: 'principal' });
    const other = await policyOf({ counter_scope: 'principal' });
    const { key } = await api.issue({ principal_id: 'ada', policy_id: mine, scopes: ['usage:read'] });
    await spend(mine, 'principal:ada', 1_000n, 'ada');
    await spend(mine, 'principal:bob', 9_000n, 'bob');
    expect((await counters(mine, {}, key)).data).toMatchObject([{ principal_id: 'ada', spent_micro_usd: 1 }]);
    expect((await counters(mine, { principal_id: 'bob' }, key)).status).toBe(403);
    expect((await counters(other, {}, key)).body.error).toMatchObject({ code: 'policy_not_found' });
    expect((await counters('pol_nonsense', {}, key)).status).toBe(404);
  });
});

describe('the counters of a further limit', () => {
  const DAY_MS = BigInt(Date.parse('2026-11-20T00:00:00Z'));

  /** A policy with limits, and how to spend of one by its name. */
  async function limited(limits: Json[]) {
    const id = await policyOf({ counter_scope: 'policy', limits });
    const { body } = await api.call('GET', `/policies/${id}`);
    const ids = new Map((body.limits as Json[]).map((limit) => [limit.name, String(limit.id)]));
    const idOf = (name: string) => ids.get(name) ?? '';
    const spendOf = async (name: string, subject: string, costNano: bigint, at = api.now) =>
      await recordAttempts(api.db, [
        {
          costNano,
          admittedAt: at,
          buckets: [{ policyId: `${id}.${idOf(name)}`, counterVersion: 1, subject, windowStartMs: DAY_MS }],
        },
      ]);
    const list = (name: string, query: Record<string, string> = {}, key?: string) =>
      counters(id, { limit_id: idOf(name), ...query }, key);
    return { id, idOf, spendOf, list };
  }

  it('are listed by value, with their own amount, window and last use, in any order and over pages', async () => {
    const { id, idOf, spendOf, list } = await limited([
      {
        name: 'each customer',
        counter_scope: 'user',
        window: 'day',
        limit_micro_usd: 5,
        others_limit_micro_usd: 50,
      },
    ]);
    const spent = [
      ['user:ann', 2_000n],
      ['user:bob/with: signs', 4_000n],
      ['others', 30_000n],
      ['unknown', 1_000n],
      ['user:eve', 900_000n],
    ] as const;
    for (const [subject, cost] of spent) await spendOf('each customer', subject, cost);
    await spendOf('each customer', 'user:ann', 1_000n, new Date(api.now.getTime() + 60_000));
    const { body, data } = await list('each customer');
    expect(body).toMatchObject({
      policy_id: id,
      limit_id: idOf('each customer'),
      limit_name: 'each customer',
      counter_scope: 'user',
      window_start: '2026-11-20T00:00:00.000Z',
      reset: '2026-11-21T00:00:00.000Z',
    });
    const rowOf = (one: Json) => [
      one.counter,
      one.value,
      one.spent_micro_usd,
      one.limit_micro_usd,
      one.headroom_micro_usd,
    ];
    const byValue = [
      ['user', 'eve', 900, 5, 0],
      ['others', null, 30, 50, 20],
      ['user', 'bob/with: signs', 4, 5, 1],
      ['user', 'ann', 3, 5, 2],
      ['unknown', null, 1, 5, 4],
    ];
    expect(data.map(rowOf)).toEqual(byValue);
    expect(data[3]?.last_used_at).toBe(new Date(api.now.getTime() + 61_500).toISOString());
    expect((await list('each customer', { value: ' ann ' })).data.map(rowOf)).toEqual([byValue[3]]);
    expect((await list('each customer', { value: 'none' })).data).toEqual([]);
    for (const sort of ['-spent', 'spent']) {
      const paged: unknown[] = [];
      for (let token = ''; ; ) {
        const { body, data } = await list('each customer', { sort, page_size: '2', page_token: token });
        paged.push(...data.map(rowOf));
        token = String(body.next_page_token);
        if (token === '') break;
      }
      expect(paged).toEqual(sort === 'spent' ? [...byValue].reverse() : byValue);
    }
    // The policy's own list has none of them.
    expect((await counters(id)).data).toEqual([]);
  });

  it('of long values are known by their hashes, and found by the whole value', async () => {
    const { spendOf, list } = await limited([
      { name: 'each session', counter_scope: 'session', window: 'day', limit_micro_usd: 5 },
    ]);
    const session = 's'.repeat(400);
    const sha256 = createHash('sha256').update(session).digest('hex');
    await spendOf('each session', `session#${sha256}`, 2_000n);
    const found = await list('each session', { value: session });
    expect(found.data).toMatchObject([{ counter: 'session', value: null, value_sha256: sha256 }]);
    expect((await list('each session', { value: sha256 })).data).toEqual([]);
  });

  it('are shown to those who see all, and those of keys and principals to whose they are', async () => {
    const { id, spendOf, list, idOf } = await limited([
      { name: 'each customer', counter_scope: 'user', window: 'day', limit_micro_usd: 5 },
      { name: 'each person', window: 'day', limit_micro_usd: 5 },
    ]);
    const { key } = await api.issue({ principal_id: 'ada', policy_id: id, scopes: ['usage:read'] });
    await spendOf('each customer', 'user:ann', 2_000n);
    await spendOf('each person', 'principal:ada', 1_000n);
    await spendOf('each person', 'principal:bob', 3_000n);
    for (const query of [{}, { value: 'ann' }]) {
      const { status, body } = await list('each customer', query, key);
      expect([status, (body.error as Json).code]).toEqual([403, 'insufficient_role']);
    }
    expect((await list('each person', {}, key)).data).toMatchObject([{ principal_id: 'ada' }]);
    expect((await list('each person', { principal_id: 'bob' })).data).toMatchObject([{ spent_micro_usd: 3 }]);
    const refused = async (query: Record<string, string>) => {
      const { status, body } = await counters(id, query);
      const { code, param } = body.error as Json;
      return [status, code, param];
    };
    expect(await refused({ limit_id: 'lim_none' })).toEqual([400, 'limit_not_found', 'limit_id']);
    expect(await refused({ value: 'ann' })).toEqual([400, 'counter_mismatch', 'value']);
    expect(await refused({ limit_id: idOf('each person'), value: 'ada' })).toEqual([
      400,
      'counter_mismatch',
      'value',
    ]);
    expect(await refused({ limit_id: idOf('each customer'), value: ' ' })).toEqual([
      400,
      'counter_mismatch',
      'value',
    ]);
    expect(await refused({ limit_id: idOf('each customer'), principal_id: 'ada' })).toEqual([
      400,
      'counter_mismatch',
      'principal_id',
    ]);
  });
});

describe('whoami', () => {
  it('says who the caller is, what it may do, and which policy governs it', async () => {
    const id = await policyOf({ name: 'mine' });
    const issued = await api.issue({
      name: 'ci',
      principal_id: 'ada',
      policy_id: id,
      scopes: ['usage:read', 'keys:write'],
    });
    const whoami = async (key: string) => (await api.call('GET', '/whoami', { key })).body;
    expect(await whoami(issued.key)).toEqual({
      principal_id: 'ada',
      roles: ['member'],
      teams: [],
      credential: 'key',
      key_id: issued.id,
      key_name: 'ci',
      scopes: ['usage:read', 'keys:write'],
      expires_at: null,
      secret_expires_at: null,
      policy_id: id,
      policy_name: 'mine',
      policy_source: 'key',
      override: null,
    });
    await api.call('POST', `/keys/${issued.id}/rotate`, { body: { grace_seconds: 60 } });
    expect((await whoami(issued.key)).secret_expires_at).toBe('2026-11-20T10:01:00.000Z');
    expect(await whoami(api.operatorKey)).toMatchObject({
      principal_id: 'operator',
      policy_source: 'default',
      override: null,
    });
    const { key } = await api.issue({ scopes: ['inference'] });
    expect((await api.call('GET', '/whoami', { key })).status).toBe(403);
  });
});
