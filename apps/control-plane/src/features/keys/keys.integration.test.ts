import { newId, windowAt } from '@weighbridge/domain';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

async function insertPolicy(changes: Record<string, unknown> = {}): Promise<string> {
  const id = newId('pol');
  await api.db
    .insertInto('policies')
    .values({
      id,
      name: 'p',
      limit_nano_usd: 5_000_000_000n,
      window_kind: 'day',
      timezone: 'UTC',
      counter_scope: 'key',
      counter_since: api.now,
      enforcement: 'enforce',
      created_at: api.now,
      updated_at: api.now,
      ...changes,
    })
    .execute();
  return id;
}

describe('creating a key', () => {
  it('returns every documented field, and the secret only once', async () => {
    const { status, body } = await api.call('POST', '/keys', { body: { name: '  web  ' } });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.stringMatching(/^key_/),
      name: 'web',
      kind: 'service',
      disabled: false,
      expires_at: null,
      last_used_at: null,
      created_at: api.now.toISOString(),
      updated_at: api.now.toISOString(),
      revoked_at: null,
      grace_ends_at: null,
      policy_id: expect.stringMatching(/^pol_/),
      key_hint: expect.stringMatching(/^sk-svc-.{4}….{4}$/),
      key: expect.stringMatching(/^sk-svc-.{49}$/),
      scopes: ['keys:read', 'keys:write', 'usage:read', 'models:read'],
      principal_id: 'operator',
      attribution: {},
      managed_by: null,
    });
    const { key, ...rest } = body;
    expect((await api.call('GET', `/keys/${body.id}`)).body).toEqual(rest);
    expect(JSON.stringify(await api.db.selectFrom('key_secrets').selectAll().execute())).not.toContain(
      String(key),
    );
  });

  it.each([
    [{}, 400, 'invalid_request'],
    [{ name: 5 }, 400, 'invalid_request'],
    [{ name: 'a', unknown: 1 }, 400, 'invalid_request'],
    [{ name: 'a', scopes: ['keys:READ'] }, 400, 'invalid_request'],
    [{ name: 'a', kind: 'robot' }, 400, 'invalid_request'],
    [{ name: 'a', expires_at: 'tomorrow' }, 400, 'invalid_request'],
    [{ name: 'a', expires_at: '2030-01-01 00:00:00Z' }, 400, 'invalid_request'],
    [{ name: 'a', expires_at: '2030-01-01T00:00:00+0100' }, 400, 'invalid_request'],
    [{ name: 'a', expires_at: '9999-12-31T23:59:59-01:00' }, 400, 'invalid_request'],
    // Shape before rules.
    [{ name: '', expires_at: 'tomorrow' }, 400, 'invalid_request'],
    [{ name: '   ' }, 422, 'name_invalid'],
    [{ name: 'x'.repeat(101) }, 422, 'name_invalid'],
    [{ name: 'a\u202eb' }, 422, 'name_invalid'],
    [{ name: 'a\u0007b' }, 422, 'name_invalid'],
    [{ name: 'a\n' }, 422, 'name_invalid'],
    [{ name: '\u2028a' }, 422, 'name_invalid'],
    [{ name: '\u200b\u200d\u2060' }, 422, 'name_invalid'],
    [{ name: '\u3164 \u{e0041}\u{e007f}' }, 422, 'name_invalid'],
    [{ name: 'a\u2028b' }, 422, 'name_invalid'],
    [{ name: 'a', attribution: { labels: { '': 'x' } } }, 422, 'attribution_invalid'],
    [{ name: 'a', attribution: { labels: { ['x'.repeat(65)]: 'x' } } }, 422, 'attribution_invalid'],
    [{ name: 'a', attribution: { labels: { 'a\nb': 5 } } }, 400, 'invalid_request'],
    [{ name: 'a', attribution: { labels: { 'a\nb': 'x' } } }, 422, 'attribution_invalid'],
    [{ name: 'a', attribution: { labels: { tier: 'x ' } } }, 422, 'attribution_invalid'],
    [{ name: 'a', attribution: { user: 'a\tb' } }, 422, 'attribution_invalid'],
    [{ name: 'a', attribution: { team: ' a' } }, 422, 'attribution_invalid'],
    [{ name: 'a', expires_at: '2020-01-01T00:00:00Z' }, 422, 'expires_at_in_past'],
    [{ name: 'a', policy_id: 'pol_nope' }, 422, 'policy_not_found'],
    [{ name: 'a', principal_id: '' }, 422, 'principal_invalid'],
    [{ name: 'a', principal_id: 'a\nb' }, 422, 'principal_invalid'],
    [{ name: 'a', principal_id: ' a' }, 422, 'principal_invalid'],
    [{ name: 'a', principal_id: 'a ' }, 422, 'principal_invalid'],
    [{ name: 'a', principal_id: '.' }, 422, 'principal_invalid'],
    [{ name: 'a', principal_id: '..' }, 422, 'principal_invalid'],
  ])('rejects %j with %d %s', async (body, status, code) => {
    expect(await outcome(api.call('POST', '/keys', { body }))).toEqual([status, code]);
  });

  it('checks the Idempotency-Key before the rules', async () => {
    for (const key of ['', 'a b', 'x'.repeat(256), 'é']) {
      const headers = { 'idempotency-key': key };
      expect(await outcome(api.call('POST', '/keys', { body: { name: '' }, headers })), key).toEqual([
        400,
        'invalid_request',
      ]);
    }
  });

  it('tells who lists the keys of another principal what it may list', async () => {
    const { key } = await api.issue({ principal_id: 'ada' });
    const { status, body } = await api.call('GET', '/keys?principal_id=grace', { key });
    expect([status, body.error]).toMatchObject([
      403,
      {
        code: 'principal_not_allowed',
        message: 'Without the scope operator, you can list only the keys of your own principal.',
      },
    ]);
  });

  it('accepts a name in which format characters join visible ones', async () => {
    expect((await api.issue({ name: '👩\u200d🔧' })).name).toBe('👩\u200d🔧');
  });

  it('changes nothing if the attribution is the same', async () => {
    const labels = { ['x'.repeat(64)]: '1', a: '2' };
    const { id, updated_at } = await api.issue({ attribution: { team: 'a', labels } });
    const state = async () => [
      (await api.db.selectFrom('audit_log').select('id').where('resource_id', '=', id).execute()).length,
      (await api.snapshot()).revision,
    ];
    const before = await state();
    api.now = new Date(api.now.getTime() + 1_000);
    // Jsonb keeps no order.
    const same = { labels: { a: '2', ['x'.repeat(64)]: '1' }, team: 'a' };
    const { body } = await api.call('PATCH', `/keys/${id}`, { body: { attribution: same } });
    expect([body.updated_at, await state()]).toEqual([updated_at, before]);
    const other = await api.call('PATCH', `/keys/${id}`, { body: { attribution: { team: 'b' } } });
    expect([other.body.attribution, other.body.updated_at]).toEqual([{ team: 'b' }, api.now.toISOString()]);
  });

  it('ignores a Content-Type without a body if no body is needed', async () => {
    const { id } = await api.issue();
    const send = async (method: 'POST' | 'DELETE', path: string) => {
      const headers = { 'content-type': 'application/json' };
      return (await api.get(`/api/v1/keys${path}`, { method, headers, key: api.operatorKey, payload: '' }))
        .status;
    };
    expect(await send('POST', `/${id}/rotate`)).toBe(200);
    expect(await send('DELETE', `/${id}`)).toBe(200);
    expect(await send('POST', '')).toBe(400);
  });

  it('grants no more than the caller has itself', async () => {
    const strict = await insertPolicy();
    const own = await insertPolicy();
    const issuer = await api.issue({
      principal_id: 'ada',
      policy_id: own,
      scopes: ['keys:write'],
      expires_at: '2027-01-01T00:00:00Z',
    });
    const create = (fields: object) =>
      outcome(api.call('POST', '/keys', { key: issuer.key, body: { name: 'a', ...fields } }));

    expect(await create({ scopes: ['keys:read'] })).toEqual([403, 'scope_escalation']);
    expect(await create({ scopes: ['operator'] })).toEqual([403, 'scope_escalation']);
    expect(await create({ principal_id: 'bob' })).toEqual([403, 'principal_not_allowed']);
    expect(await create({ policy_id: strict })).toEqual([403, 'policy_not_assignable']);
    expect(await create({ attribution: { team: 'mine' } })).toEqual([403, 'attribution_not_allowed']);
    expect(await create({ managed_by: 'apply' })).toEqual([403, 'managed_by_not_allowed']);
    expect(await create({ expires_at: '2028-01-01T00:00:00Z' })).toEqual([403, 'expiry_too_late']);
    expect(await create({ expires_at: null })).toEqual([403, 'expiry_too_late']);

    const minted = await api.issue({ scopes: ['inference', 'keys:write'] }, issuer.key);
    expect(minted).toMatchObject({
      principal_id: 'ada',
      policy_id: own,
      expires_at: '2027-01-01T00:00:00.000Z',
      scopes: ['inference', 'keys:write'],
    });
    // Under a key-scoped policy it draws on its issuer's counter.
    const row = await api.db
      .selectFrom('keys')
      .selectAll()
      .where('id', '=', minted.id)
      .executeTakeFirstOrThrow();
    expect(row.counter_key_id).toBe(issuer.id);
    expect(
      await outcome(api.call('POST', '/keys', { key: minted.key, body: { name: 'a', scopes: null } })),
    ).toEqual([201, undefined]);
  });
});

describe('updating a key', () => {
  it('changes only the given fields', async () => {
    const { id, key, ...before } = await api.issue();
    api.now = new Date(api.now.getTime() + 1_000);
    expect((await api.call('PATCH', `/keys/${id}`, { body: {} })).body).toEqual({ id, ...before });
    const changed = await api.call('PATCH', `/keys/${id}`, {
      body: { name: 'b', expires_at: '2027-01-01T01:00:00+01:00' },
    });
    const after = {
      ...before,
      id,
      name: 'b',
      expires_at: '2027-01-01T00:00:00.000Z',
      updated_at: api.now.toISOString(),
    };
    expect(changed.body).toEqual(after);
    expect((await api.call('PATCH', `/keys/${id}`, { body: { expires_at: null } })).body).toMatchObject({
      expires_at: null,
    });
  });

  it('rejects fields that are fixed at issue', async () => {
    const { id } = await api.issue();
    for (const body of [{ scopes: [] }, { kind: 'user' }, { principal_id: 'x' }, { id: 'x' }, { key: 'x' }]) {
      expect(await outcome(api.call('PATCH', `/keys/${id}`, { body }))).toEqual([400, 'invalid_request']);
    }
  });

  it('lets only an operator enable a key that an operator disabled', async () => {
    const { id, key } = await api.issue({ principal_id: 'eve' });
    const other = await api.issue({ principal_id: 'eve' });
    await api.call('PATCH', `/keys/${id}`, { body: { disabled: true } });
    expect(await outcome(api.call('GET', '/usage', { key }))).toEqual([401, 'key_disabled']);
    const enable = (by: string) =>
      outcome(api.call('PATCH', `/keys/${id}`, { key: by, body: { disabled: false } }));
    expect(await enable(other.key)).toEqual([403, 'key_disabled_by_operator']);
    expect(await enable(api.operatorKey)).toEqual([200, undefined]);
  });

  it('lets only an operator enable a key that its holder and then an operator disabled', async () => {
    const { id } = await api.issue({ principal_id: 'mallory' });
    const { key } = await api.issue({ principal_id: 'mallory' });
    const set = (disabled: boolean, by: string) =>
      outcome(api.call('PATCH', `/keys/${id}`, { key: by, body: { disabled } }));
    expect(await set(true, key)).toEqual([200, undefined]);
    expect(await set(false, key)).toEqual([200, undefined]);
    expect(await set(true, key)).toEqual([200, undefined]);
    expect(await set(true, api.operatorKey)).toEqual([200, undefined]);
    // Not undone by its holder's disabling it once more.
    expect(await set(true, key)).toEqual([200, undefined]);
    expect(await set(false, key)).toEqual([403, 'key_disabled_by_operator']);
  });

  it("lets only an operator change an operator's key, also within one principal", async () => {
    const strong = await api.issue({ scopes: ['operator', 'keys:write'] });
    const plain = await api.issue();
    expect(strong.principal_id).toBe(plain.principal_id);
    const refused = [403, 'insufficient_scope'];
    expect(await outcome(api.call('DELETE', `/keys/${strong.id}`, { key: plain.key }))).toEqual(refused);
    expect(
      await outcome(api.call('PATCH', `/keys/${strong.id}`, { key: plain.key, body: { disabled: true } })),
    ).toEqual(refused);
    expect(await outcome(api.call('POST', `/keys/${strong.id}/rotate`, { key: plain.key }))).toEqual(refused);
    expect((await api.call('GET', `/keys/${strong.id}`, { key: plain.key })).status).toBe(200);
  });
});

describe('a caller', () => {
  it("sees the keys of its own principal; another's is a 404, whatever else is wrong", async () => {
    const mine = await api.issue({ principal_id: 'ada' });
    const theirs = await api.issue({ principal_id: 'bob' });
    for (const id of [theirs.id, newId('key'), 'key_x', 'nonsense', `${'x'.repeat(300)}`]) {
      expect(await outcome(api.call('GET', `/keys/${id}`, { key: mine.key }))).toEqual([
        404,
        'key_not_found',
      ]);
      expect(await outcome(api.call('GET', `/keys/${id}/usage`, { key: mine.key }))).toEqual([
        404,
        'key_not_found',
      ]);
      const malformed = {
        key: mine.key,
        body: '{"nonsense',
        headers: { 'content-type': 'application/json' },
      };
      expect(await outcome(api.call('PATCH', `/keys/${id}`, malformed))).toEqual([404, 'key_not_found']);
    }
  });

  it('needs a valid key with the scope of the operation', async () => {
    expect(await outcome(api.call('GET', '/usage', { key: null }))).toEqual([401, 'missing_api_key']);
    expect(await outcome(api.call('GET', '/usage', { key: 'sk-svc-nope' }))).toEqual([
      401,
      'invalid_api_key',
    ]);
    const expiring = await api.issue({ expires_at: new Date(api.now.getTime() + 1_000).toISOString() });
    api.now = new Date(api.now.getTime() + 2_000);
    expect(await outcome(api.call('GET', '/usage', { key: expiring.key }))).toEqual([401, 'key_expired']);
    const narrow = await api.issue({ scopes: ['inference'] });
    for (const [method, path] of [
      ['GET', '/usage'],
      ['GET', '/models'],
      ['POST', '/keys'],
      ['GET', `/keys/${narrow.id}`],
      ['PATCH', `/keys/${narrow.id}`],
    ] as const) {
      expect(await outcome(api.call(method, path, { key: narrow.key }))).toEqual([403, 'insufficient_scope']);
    }
  });
});

describe('the usage report', () => {
  it('has the policy, its window and its counter in the documented fields', async () => {
    const policy = await insertPolicy({
      timezone: 'Europe/Berlin',
      counter_scope: 'policy',
      enforcement: 'shadow',
    });
    const { id } = await api.issue({ principal_id: 'ada', policy_id: policy });
    const window = windowAt('day', 'Europe/Berlin', api.now);
    expect((await api.call('GET', `/keys/${id}/usage`)).body).toEqual({
      policy_id: policy,
      source: 'key',
      active: false,
      counter_scope: 'policy',
      pooled: true,
      limit_micro_usd: 5_000_000,
      override: null,
      window_start: window.start.toISOString(),
      reset: window.end?.toISOString(),
      window_unbounded: false,
      bucket_spent_micro_usd: 0,
      bucket_as_of: expect.any(String),
      principal_spent_micro_usd: 0,
      principal_spent_from: window.start.toISOString(),
      principal_spent_complete: true,
      remaining_micro_usd: 5_000_000,
      headroom_micro_usd: null,
      headroom_counter: null,
      limits: [],
      queried_at: expect.any(String),
    });
  });

  it('has no limit, remainder or reset if the policy has none', async () => {
    const policy = await insertPolicy({ limit_nano_usd: null, window_kind: 'none' });
    const { id } = await api.issue({ policy_id: policy });
    expect((await api.call('GET', `/keys/${id}/usage`)).body).toMatchObject({
      limit_micro_usd: null,
      remaining_micro_usd: null,
      window_unbounded: true,
      reset: null,
      window_start: expect.stringMatching(/^2026-11-20/),
    });
  });
});

describe('the list of models', () => {
  it('has the models with a usable connector that the policy allows, in pages', async () => {
    const rich = await startTestApi({ OPENAI_API_KEY: 'x', GROQ_API_KEY: 'y' });
    const all = (await rich.call('GET', '/models?page_size=500')).body;
    const ids = (all.data as { model: string }[]).map(({ model }) => model);
    expect(new Set(ids.map((id) => id.split('/')[0]))).toEqual(new Set(['groq', 'mock', 'openai']));
    expect(ids).toEqual([...ids].sort());
    expect(all.next_page_token).toBe('');

    const seen: string[] = [];
    let token = '';
    do {
      const { body } = await rich.call('GET', `/models?page_size=70&page_token=${token}`);
      seen.push(...(body.data as { model: string }[]).map(({ model }) => model));
      token = body.next_page_token as string;
    } while (token);
    expect(seen).toEqual(ids);
    for (const query of ['page_token=nonsense', 'page_size=0', 'page_size=501', 'page_size=x', 'other=1']) {
      expect((await rich.call('GET', `/models?${query}`)).status).toBe(400);
    }
    await rich.close();
  });
});
