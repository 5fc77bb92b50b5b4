import { newId, newUuid } from '@weighbridge/domain';
import { type RefusalRow, recordRefusals } from '@weighbridge/ledger';
import { sql } from 'kysely';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
let ada: string;
beforeAll(async () => {
  api = await startTestApi();
  ada = (await api.issue({ principal_id: 'ada', scopes: ['usage:read'] })).key;
});
afterAll(() => api.close());
beforeEach(async () => {
  await emptyLedger(api.db);
  await sql`TRUNCATE refused_requests, refusal_batches`.execute(api.db);
});

const at = (minute: number) => new Date(Date.parse('2026-11-20T09:00:00Z') + minute * 60_000);

const COUNTER = {
  policy_id: 'pol_1',
  subject: '',
  limits: 'budget',
  limit: '5000000',
  spent: '4999500',
  wanted: '2000',
  window_start: '2026-11-01T00:00:00.000Z',
  resets_at: '2026-12-01T00:00:00.000Z',
} as const;

async function refuse(...rows: Partial<RefusalRow>[]): Promise<void> {
  const whole = rows.map((row) => ({
    id: newUuid(),
    refused_at: at(0),
    request_id: newId('req'),
    key_id: 'key_1',
    principal_id: 'ada',
    policy_id: 'pol_1',
    endpoint: 'chat_completions',
    model_requested: 'mock/echo',
    http_status: 429,
    code: 'budget_exhausted',
    message: 'The budget of this key is used up.',
    attempts: 0,
    counter: null,
    attribution: '{}',
    counts: null,
    ...row,
  }));
  await recordRefusals(api.db, { producerId: newUuid(), epoch: newUuid(), n: 1n, rows: whole }, at(0));
}

interface Row {
  readonly request_id: string;
  readonly outcome: string;
  readonly refusal: { readonly count: number } | null;
  readonly attempts: readonly unknown[];
}

async function list(query: Record<string, string> = {}, key = api.operatorKey) {
  const { status, body } = await api.call('GET', `/requests?${new URLSearchParams(query)}`, { key });
  return { status, body, rows: (body.data ?? []) as Row[] };
}

describe('refused requests in GET /requests', () => {
  it('say why, without cost, with names, to their own principal and to operators', async () => {
    const { body: policy } = await api.call('POST', '/policies', { body: { name: 'research' } });
    const key = await api.issue({ name: 'notebook', principal_id: 'ada' });
    const request = newId('req');
    await refuse({
      request_id: request,
      key_id: key.id,
      policy_id: String(policy.id),
      counter: { ...COUNTER, policy_id: String(policy.id) },
      attribution: JSON.stringify({ team: 'x', session_id: 's', session_sha256: 'ab' }),
    });
    const { body } = await api.call('GET', `/requests/${request}`, { key: ada });
    expect(body).toEqual({
      request_id: request,
      admitted_at: at(0).toISOString(),
      outcome: 'refused',
      model_requested: 'mock/echo',
      key_id: key.id,
      key_name: 'notebook',
      principal_id: 'ada',
      team_id: null,
      team_name: null,
      attribution: { team: 'x', session_id: 's' },
      policies: [],
      cost_micro_usd: 0,
      refusal: {
        code: 'budget_exhausted',
        http_status: 429,
        message: 'The budget of this key is used up.',
        endpoint: 'chat_completions',
        policy_id: policy.id,
        policy_name: 'research',
        counter: {
          limit_id: null,
          value: null,
          limits: 'budget',
          limit: null,
          spent: null,
          limit_micro_usd: 5_000,
          spent_micro_usd: 5_000,
          estimate_micro_usd: 2,
          window_start: COUNTER.window_start,
          reset: COUNTER.resets_at,
        },
        count: 1,
        by_code: { budget_exhausted: 1 },
      },
      attempts: [],
      corrections: [],
      feedback: null,
      costs: [],
    });
    const { costs: _, ...listed } = body;
    expect((await list({}, ada)).rows).toEqual([listed]);
    const bob = (await api.issue({ principal_id: 'bob', scopes: ['usage:read'] })).key;
    expect((await list({}, bob)).rows).toEqual([]);
    expect((await api.call('GET', `/requests/${request}`, { key: bob })).status).toBe(404);
  });

  it("show a parent policy's figures only to operators", async () => {
    await refuse({ counter: { ...COUNTER, policy_id: 'pol_parent' } });
    const refusalFor = async (key: string) => (await list({}, key)).rows[0]?.refusal;
    expect(await refusalFor(ada)).toMatchObject({
      policy_id: null,
      counter: { limits: 'budget', limit_micro_usd: null, spent_micro_usd: null, reset: COUNTER.resets_at },
    });
    expect(await refusalFor(api.operatorKey)).toMatchObject({
      policy_id: 'pol_parent',
      counter: { limit_micro_usd: 5_000 },
    });
  });

  it('are read by the lead of the team that they were refused in, with the figures of its budget, and by finance', async () => {
    const made = async (path: string, body: object) =>
      String((await api.call('POST', path, { body })).body.id);
    const pool = await made('/policies', { name: 'pool', counter_scope: 'policy' });
    const above = await made('/policies', { name: 'all of the company' });
    const [ours, theirs] = [
      await made('/teams', { name: 'ours', policy_id: pool }),
      await made('/teams', { name: 'theirs' }),
    ];
    const below = await made('/teams', { name: 'below ours', parent_team_id: ours });
    const scopes = ['usage:read'];
    for (const [team, lead] of [
      [ours, 'lea'],
      [theirs, 'ole'],
    ])
      await api.call('PUT', `/teams/${team}/members/${lead}`, { body: { role: 'lead' } });
    await api.call('PUT', '/principals/fin', { body: { role: 'finance' } });
    const lea = (await api.issue({ principal_id: 'lea', scopes })).key;
    const ole = (await api.issue({ principal_id: 'ole', scopes })).key;
    const fin = (await api.issue({ principal_id: 'fin', scopes })).key;
    await refuse(
      { principal_id: 'mia', team_id: ours, counter: { ...COUNTER, policy_id: pool } },
      { principal_id: 'bo', team_id: below, counter: { ...COUNTER, policy_id: above } },
      // Where a member was before, or is now, does not matter.
      { principal_id: 'mia', team_id: theirs, counter: { ...COUNTER, policy_id: pool } },
      { principal_id: 'mia', team_id: null },
    );
    const seen = async (key: string, query = {}) => {
      const rows = (await list({ outcome: 'refused', ...query }, key)).body.data as {
        request_id: string;
        team_id: string;
        refusal: { policy_id: string | null; counter: { limit_micro_usd: number | null } };
      }[];
      for (const { request_id } of rows)
        expect((await api.call('GET', `/requests/${request_id}`, { key })).status).toBe(200);
      return rows.map(({ team_id, refusal }) => [
        team_id,
        refusal.policy_id,
        refusal.counter?.limit_micro_usd,
      ]);
    };
    expect((await seen(lea)).sort()).toEqual(
      [
        [ours, pool, 5_000],
        [below, null, null],
      ].sort(),
    );
    expect(await seen(lea, { principal_id: 'bo' })).toEqual([[below, null, null]]);
    expect(await seen(lea, { team_id: theirs })).toEqual([]);
    expect(await seen(ole)).toEqual([[theirs, null, null]]);
    expect(await seen(fin, { team_id: below })).toEqual([[below, above, 5_000]]);
    expect(await seen(fin)).toHaveLength(4);
  });

  it('stand among the others by time, page by page, each once', async () => {
    const sent = [newId('req'), newId('req')];
    await recordAttempts(api.db, [
      { request: sent[0] ?? '', admittedAt: at(1) },
      { request: sent[1] ?? '', admittedAt: at(3) },
    ]);
    // The second attempt of one of them was refused.
    await refuse(
      { refused_at: at(0) },
      { refused_at: at(2) },
      { request_id: sent[1] ?? '', refused_at: at(3), attempts: 1 },
    );
    const rows: Row[] = [];
    for (let token = ''; ; ) {
      const { body, rows: more } = await list({ page_size: '1', page_token: token });
      rows.push(...more);
      token = String(body.next_page_token);
      if (token === '') break;
    }
    expect(rows.map((row) => [row.outcome, row.attempts.length])).toEqual([
      ['refused', 1],
      ['refused', 0],
      ['success', 1],
      ['refused', 0],
    ]);
    expect((await list({ outcome: 'refused' })).rows.map((row) => row.attempts.length)).toEqual([1, 0, 0]);
    expect((await list({ outcome: 'success' })).rows).toHaveLength(2);
  });

  it('are filtered by what they have, and by nothing that they lack', async () => {
    const attribution = { team: 't', labels: { a: 'b' }, user: 'u', project: 'p', env: 'e' };
    await refuse({ attribution: JSON.stringify(attribution), key_id: 'key_x', model_requested: 'mock/x' });
    await refuse({ counter: { ...COUNTER, policy_id: 'pol_parent' } });
    for (const query of [
      { team: 't' },
      { label: 'a=b' },
      { user: 'u' },
      { project: 'p' },
      { env: 'e' },
      { key_id: 'key_x' },
      { model: 'mock/x' },
      { policy_id: 'pol_parent' },
    ] as Record<string, string>[]) {
      expect((await list(query)).rows, JSON.stringify(query)).toHaveLength(1);
    }
    for (const query of [
      { provider: 'mock' },
      { min_cost_micro_usd: '1' },
      { estimated: 'true' },
      { price_incomplete: 'true' },
      { outcome: 'success' },
      { to: at(0).toISOString(), from: at(-10).toISOString() },
    ] as Record<string, string>[]) {
      expect((await list(query)).rows, JSON.stringify(query)).toHaveLength(0);
    }
  });

  it('beyond the limit of a minute are one row that counts', async () => {
    await refuse(
      ...Array.from({ length: 130 }, (_, n) => ({ code: n < 20 ? 'model_not_allowed' : 'budget_exhausted' })),
    );
    const { rows } = await list({ page_size: '500', outcome: 'refused' });
    expect(rows).toHaveLength(101);
    expect(rows.filter(({ request_id }) => request_id === '')).toMatchObject([
      {
        admitted_at: at(0).toISOString(),
        refusal: { code: 'budget_exhausted', count: 30, by_code: { budget_exhausted: 30 } },
      },
    ]);
  });

  it('can not be corrected', async () => {
    const request = newId('req');
    await refuse({ request_id: request });
    const body = { amount_micro_usd: 1, reason: 'x' };
    expect((await api.call('POST', `/requests/${request}/corrections`, { body })).status).toBe(404);
  });
});
