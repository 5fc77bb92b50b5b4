import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

interface Call {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
  readonly creates?: string;
}

async function check(calls: readonly Call[], key = api.operatorKey) {
  const { status, body } = await api.call('POST', '/plans/check', { key, body: { calls } });
  return { status, body, errors: (body.errors ?? []) as Json[] };
}

/** All that a change would leave behind. */
async function state(): Promise<unknown> {
  const { rows } = await sql`
    SELECT (SELECT revision FROM revision), (SELECT count(*) FROM policies) AS policies,
      (SELECT count(*) FROM principals) AS principals, (SELECT count(*) FROM audit_log) AS audit,
      (SELECT count(*) FROM connectors) AS connectors, (SELECT count(*) FROM keys) AS keys,
      (SELECT count(*) FROM changes) AS changes, (SELECT max(updated_at) FROM policies) AS updated`.execute(
    api.db,
  );
  return rows;
}

const policy = (name: string, fields: object = {}): Call => ({
  method: 'POST',
  path: '/api/v1/policies',
  body: { name, ...fields },
  creates: `{${name}}`,
});

describe('checking a plan', () => {
  it('finds nothing wrong with what would succeed, and changes nothing', async () => {
    const before = await state();
    const { status, body } = await check([
      policy('company', { limit_micro_usd: 9_000_000 }),
      policy('team', { parent_policy_id: '{company}' }),
      { method: 'PUT', path: '/api/v1/principals/eve', body: { policy_id: '{team}' } },
      { method: 'PATCH', path: '/api/v1/policies/{team}', body: { limit_micro_usd: 5, window: 'day' } },
      {
        method: 'POST',
        path: '/api/v1/connectors',
        body: { name: 'second', provider: 'openai', credential_ref: 'env:NONE' },
        creates: '{con}',
      },
      {
        method: 'PUT',
        path: '/api/v1/connectors/{con}/prices/openai%2Fgpt-4o-mini',
        body: {
          input_price: { currency_code: 'USD', units: 1, nanos: 0 },
          output_price: { currency_code: 'USD', units: 1, nanos: 0 },
        },
      },
    ]);
    expect([status, body]).toEqual([200, { checked: 6, errors: [] }]);
    expect(await state()).toEqual(before);
    expect((await api.call('GET', '/principals/eve')).status).toBe(404);
    // The service goes on as before.
    expect((await api.call('POST', '/policies', { body: { name: 'after' } })).status).toBe(201);
  });

  it('reports every refusal, as the call would get it, and skips what depends on it', async () => {
    const { body: used } = await api.call('POST', '/policies', { body: { name: 'used' } });
    await api.call('PUT', '/principals/ada', { body: { policy_id: used.id } });
    const before = await state();
    const { body, errors } = await check([
      { method: 'DELETE', path: `/api/v1/policies/${String(used.id)}` },
      {
        method: 'POST',
        path: '/api/v1/connectors',
        body: { name: 'inside', provider: 'acme', dialect: 'openai', base_url: 'http://10.0.0.7/v1' },
        creates: '{con}',
      },
      { method: 'PATCH', path: '/api/v1/connectors/{con}', body: { priority: 3 } },
      policy('other', { parent_policy_id: '{unknown}' }),
      policy('fine'),
      { method: 'PUT', path: '/api/v1/principals/bob', body: { policy_id: '{other}' } },
      { method: 'PATCH', path: '/api/v1/policies/pol_nonsense', body: {} },
      { method: 'POST', path: '/api/v1/aliases', body: { name: 'x', target: 'mock/none' } },
    ]);
    expect(errors.map(({ index, status, code }) => [index, status, code])).toEqual([
      [0, 409, 'policy_in_use'],
      [1, 422, expect.stringContaining('base_url')],
      [3, 422, 'policy_not_found'],
      [6, 404, 'policy_not_found'],
      [7, 422, expect.any(String)],
    ]);
    expect(body.checked).toBe(6);
    expect(await state()).toEqual(before);
  });

  it('sees what earlier calls of the plan did', async () => {
    const { body: held } = await api.call('POST', '/policies', { body: { name: 'held' } });
    await api.call('PUT', '/principals/carl', { body: { policy_id: held.id } });
    const remove: Call = { method: 'DELETE', path: `/api/v1/policies/${String(held.id)}` };
    expect((await check([remove])).errors).toHaveLength(1);
    const release: Call = { method: 'PUT', path: '/api/v1/principals/carl', body: { policy_id: null } };
    expect((await check([release, remove])).errors).toEqual([]);
    expect((await check([release, remove, remove])).errors).toMatchObject([{ index: 2, status: 404 }]);
  });

  it('is for operators, and for changes of the configuration only', async () => {
    const { key } = await api.issue({ scopes: ['keys:write', 'usage:read'] });
    expect((await check([policy('x')], key)).status).toBe(403);
    for (const path of [
      '/api/v1/plans/check',
      '/api/v1/ledger/rebuild',
      '/api/v1/catalog/feed/refresh',
      '/api/v1/../../v1/chat/completions',
      '/api/v1/none',
    ]) {
      const { errors } = await check([{ method: 'POST', path, body: {} }]);
      expect([path, errors[0]?.status]).toEqual([path, expect.toBeOneOf([400, 404])]);
    }
    for (const body of [
      {},
      { calls: [] },
      { calls: [{ method: 'GET', path: '/api/v1/keys' }] },
      { calls: [{ method: 'POST', path: 'http://x/api/v1/keys' }] },
    ]) {
      expect((await api.call('POST', '/plans/check', { body })).status).toBe(400);
    }
  });

  it('gives way to whoever holds a row, and leaves the service usable', async () => {
    const { body: target } = await api.call('POST', '/policies', { body: { name: 'locked' } });
    await api.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM policies WHERE id = ${target.id} FOR UPDATE`.execute(tx);
      const { status, body } = await check([
        { method: 'PATCH', path: `/api/v1/policies/${String(target.id)}`, body: { name: 'renamed' } },
      ]);
      expect([status, (body.error as Json).code]).toEqual([503, 'check_interrupted']);
    });
    expect((await check([policy('again')])).errors).toEqual([]);
  });
});
