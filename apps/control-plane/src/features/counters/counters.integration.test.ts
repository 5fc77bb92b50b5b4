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
        principal_id: null,
        key_id: null,
        key_name: null,
        spent_micro_usd: 12,
        leased_micro_usd: 0,
        limit_micro_usd: null,
        headroom_micro_usd: null,
        override: null,
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
