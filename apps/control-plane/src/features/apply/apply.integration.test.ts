import { setBucketLimits } from '@weighbridge/ledger';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { lockGovernance } from '../policies/governance.ts';

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
  readonly expects?: object | null;
}

async function check(calls: readonly Call[], key = api.operatorKey) {
  const { status, body } = await api.call('POST', '/apply', { key, body: { calls, dry_run: true } });
  return { status, body, errors: (status === 200 ? body.errors : [body.error]) as Json[] };
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

describe('a dry run', () => {
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
    expect([status, body]).toEqual([200, { dry_run: true, calls: 6, errors: [], results: [] }]);
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
    expect(body.calls).toBe(6);
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
      '/api/v1/apply',
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
      expect((await api.call('POST', '/apply', { body })).status).toBe(400);
    }
  });

  it('gives way to whoever holds a row, and leaves the service usable', async () => {
    const { body: target } = await api.call('POST', '/policies', { body: { name: 'locked' } });
    await api.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM policies WHERE id = ${target.id} FOR UPDATE`.execute(tx);
      const { status, body } = await check([
        { method: 'PATCH', path: `/api/v1/policies/${String(target.id)}`, body: { name: 'renamed' } },
      ]);
      expect([status, (body.error as Json).code]).toEqual([503, 'apply_interrupted']);
    });
    expect((await check([policy('again')])).errors).toEqual([]);
  });
});

/** Applies a plan for good. */
async function apply(
  calls: readonly Call[],
  { key = api.operatorKey, ...headers }: { key?: string } & Record<string, string> = {},
) {
  const response = await api.call('POST', '/apply', { key, body: { calls }, headers });
  const error = (response.body.error ?? {}) as Json;
  const results = (response.body.results ?? []) as { id?: string; key?: string }[];
  return { ...response, error, results, code: error.code };
}

const revisions = async () =>
  Number((await sql<{ revision: bigint }>`SELECT revision FROM revision`.execute(api.db)).rows[0]?.revision);
const actions = async (since: string) =>
  ((await api.call('GET', '/audit?page_size=50')).body.data as Json[])
    .filter(({ id }) => BigInt(id as string) > BigInt(since))
    .map(({ action, actor_principal_id }) => [action, actor_principal_id])
    .reverse();
const newestAudit = async () =>
  String(((await api.call('GET', '/audit?page_size=1')).body.data as Json[])[0]?.id);

describe('a plan', () => {
  it('makes all changes at once: a revision and an audit row for each, and their ids in order', async () => {
    const [before, audit] = [await revisions(), await newestAudit()];
    const { status, body, results } = await apply([
      policy('made'),
      policy('child', { parent_policy_id: '{made}', limit_micro_usd: 5 }),
      { method: 'PUT', path: '/api/v1/principals/made-for', body: { policy_id: '{child}' } },
      { method: 'PATCH', path: '/api/v1/policies/{child}', body: { limit_micro_usd: 7, window: 'day' } },
    ]);
    expect([status, body]).toMatchObject([200, { dry_run: false, calls: 4, errors: [] }]);
    expect(await actions(audit)).toEqual(
      ['policy.created', 'policy.created', 'principal.created', 'policy.updated'].map((action) => [
        action,
        'operator',
      ]),
    );
    expect(await revisions()).toBe(before + 4);
    const [made, child, principal] = results.map(({ id }) => id);
    expect((await api.call('GET', `/policies/${child}`)).body).toMatchObject({
      parent_policy_id: made,
      limit_micro_usd: 7,
    });
    expect([principal, (await api.call('GET', '/principals/made-for')).body.policy_id]).toEqual([
      'made-for',
      child,
    ]);
  });

  it('that is refused changes nothing, and names every refused call', async () => {
    const before = await state();
    const { status, code, error } = await apply([
      policy('never'),
      policy(''),
      { method: 'PUT', path: '/api/v1/principals/never', body: { policy_id: '{never}' } },
      { method: 'DELETE', path: '/api/v1/aliases/als_none' },
    ]);
    expect([status, code, error.param]).toEqual([422, 'plan_refused', 'calls.1']);
    expect((error.errors as Json[]).map(({ index, status }) => [index, status])).toEqual([
      [1, 422],
      [3, 404],
    ]);
    expect(await state()).toEqual(before);
  });

  it('is applied once under an Idempotency-Key: a lost response is repeated, with its secrets, to its sender alone', async () => {
    const calls: Call[] = [{ method: 'POST', path: '/api/v1/keys', body: { name: 'once' }, creates: '{k}' }];
    const first = await apply(calls, { 'idempotency-key': 'a-run' });
    const after = await state();
    const again = await apply(calls, { 'idempotency-key': 'a-run' });
    expect(first.results[0]?.key).toMatch(/^sk-svc-/);
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect([first.headers['idempotency-replayed'], again.headers['idempotency-replayed']]).toEqual([
      undefined,
      'true',
    ]);
    expect(await apply([...calls, policy('more')], { 'idempotency-key': 'a-run' })).toMatchObject({
      status: 409,
      code: 'idempotency_key_reused',
    });
    expect(await state()).toEqual(after);
    const stored = await sql`SELECT * FROM idempotent_answers`.execute(api.db);
    const audit = JSON.stringify((await api.call('GET', '/audit?page_size=50')).body);
    for (const text of [api.log(), audit, JSON.stringify(stored.rows)])
      expect(text).not.toContain(first.results[0]?.key);
    const sealed = (stored.rows as { sealed_answer: Buffer }[]).map((row) =>
      row.sealed_answer.toString('latin1'),
    );
    expect(sealed.join()).not.toContain(String(first.results[0]?.key));
  });

  it('that is refused under an Idempotency-Key is not remembered', async () => {
    const calls = [
      { method: 'PUT', path: '/api/v1/principals/later', body: { policy_id: null } },
      policy(''),
    ] as const;
    expect((await apply(calls, { 'idempotency-key': 'b-run' })).status).toBe(422);
    expect((await apply([calls[0]], { 'idempotency-key': 'b-run' })).status).toBe(200);
  });

  it('gives no secret of a dry run', async () => {
    const calls: Call[] = [{ method: 'POST', path: '/api/v1/keys', body: { name: 'never' } }];
    const { body } = await check(calls);
    expect(body).toMatchObject({ dry_run: true, errors: [], results: [] });
    expect(JSON.stringify(body)).not.toContain('sk-svc-');
  });

  it('is refused whole if a resource is not as it expects, or exists already', async () => {
    const { body: found } = await api.call('POST', '/policies', {
      body: { name: 'found', limit_micro_usd: 1 },
    });
    const path = `/api/v1/policies/${String(found.id)}`;
    const change: Call = { method: 'PATCH', path, body: { limit_micro_usd: 2 }, expects: found };
    expect((await check([change])).errors).toEqual([]);
    await api.call('PATCH', `/policies/${String(found.id)}`, { body: { name: 'found by another' } });
    const before = await state();
    const lost = await apply([policy('first'), change, policy('')]);
    expect([lost.status, lost.code, lost.error.param]).toEqual([412, 'precondition_failed', 'calls.1']);
    expect((lost.error.errors as Json[]).map(({ index, status }) => [index, status])).toEqual([
      [1, 412],
      [2, 422],
    ]);
    const twice = await apply([{ ...policy('found by another'), expects: null }]);
    expect([twice.status, await state()]).toEqual([412, before]);
    expect(
      (await apply([{ ...change, expects: { ...found, name: 'found by another', updated_at: undefined } }]))
        .status,
    ).toBe(200);
  });

  it('is applied beside others one after the other: none is mixed with another, none is lost', async () => {
    const before = await revisions();
    const run = (n: number) =>
      apply([policy(`side ${n}`), policy(`by side ${n}`, { parent_policy_id: `{side ${n}}` })]);
    const runs = await Promise.all(Array.from({ length: 4 }, (_, n) => run(n)));
    const done = runs.filter(({ status }) => status === 200);
    expect(done.length).toBeGreaterThan(0);
    for (const { status, code } of runs)
      if (status !== 200) expect([status, code]).toEqual([503, 'apply_running']);
    expect(await revisions()).toBe(before + 2 * done.length);
    expect((await run(9)).status).toBe(200);
  });

  it('waits for a plan of another control plane, and says so after a while', async () => {
    const [before, waited] = await api.db.transaction().execute(async (tx) => {
      await lockGovernance(tx, 'exclusive');
      return [await state(), await apply([policy('behind')])];
    });
    expect([waited.status, waited.code, await state()]).toEqual([503, 'apply_running', before]);
  });

  it('waits for itself at another control plane, which has not responded yet', async () => {
    const { data } = (await api.call('GET', '/keys?name_contains=operator&page_size=500')).body as {
      data: Json[];
    };
    const own = data.find(
      ({ scopes, name }) => name === 'operator' && (scopes as string[]).includes('operator'),
    );
    const [before, waited] = await api.db.transaction().execute(async (tx) => {
      const lock = `${String(own?.id)} c-run`;
      await sql`SELECT pg_advisory_xact_lock(hashtextextended(${lock}, 0))`.execute(tx);
      return [await state(), await apply([policy('twice')], { 'idempotency-key': 'c-run' })];
    });
    expect([waited.status, waited.code, await state()]).toEqual([503, 'apply_running', before]);
  });

  it('holds the revision and the counters only while it ends', async () => {
    const { body: limited } = await api.call('POST', '/policies', {
      body: { name: 'limited', limit_micro_usd: 9 },
    });
    // Whoever holds them would stop the plan at its first change, if it took them there.
    const outcome = await api.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM revision FOR UPDATE`.execute(tx);
      await setBucketLimits(tx, [String(limited.id)], api.now);
      const path = `/api/v1/policies/${String(limited.id)}`;
      return await check([
        { method: 'PATCH', path, body: { limit_micro_usd: 8, window: 'day' } },
        policy('beside'),
      ]);
    });
    expect(outcome.errors).toEqual([]);
  });

  it('leaves no key without a policy, and says which call would; in between it may', async () => {
    const { data } = (await api.call('GET', '/policies?default_for=all')).body as { data: Json[] };
    const path = `/api/v1/policies/${String(data[0]?.id)}`;
    const clear: Call = { method: 'PATCH', path, body: { default_for: null } };
    const before = await state();
    const { status, error } = await apply([policy('beside'), clear]);
    const errors = (error.errors as Json[]).map(({ index, code }) => [index, code]);
    expect([status, errors]).toEqual([422, [[1, 'policy_in_use']]]);
    expect(await state()).toEqual(before);
    expect((await check([clear, policy('default', { default_for: 'all' })])).errors).toEqual([]);
  });

  it('acts with the rights that its own calls leave its sender', async () => {
    const { key, id } = await api.issue({
      scopes: ['operator', 'keys:write', 'keys:read'],
      principal_id: 'self',
    });
    const disable: Call = { method: 'PATCH', path: `/api/v1/keys/${id}`, body: { disabled: true } };
    const before = await state();
    const { status, error } = await apply([policy('before'), disable, policy('after')], { key });
    expect([status, (error.errors as Json[]).map(({ index, status }) => [index, status])]).toEqual([
      422,
      [[2, 401]],
    ]);
    expect(await state()).toEqual(before);
  });

  it('makes calls only as its sender may: an operator without keys:write issues no key', async () => {
    const { key } = await api.issue({ scopes: ['operator'], principal_id: 'no-keys' });
    const { status, error } = await apply([{ method: 'POST', path: '/api/v1/keys', body: { name: 'x' } }], {
      key,
    });
    expect([status, (error.errors as Json[])[0]]).toMatchObject([
      422,
      { status: 403, code: 'insufficient_scope' },
    ]);
  });
});
