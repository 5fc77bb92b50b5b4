import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';
import { recordEnds } from './overrides.service.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

let policies = 0;
async function policyOf(fields: Json = {}): Promise<string> {
  const name = `policy ${++policies}`;
  const body = { name, counter_scope: 'principal', limit_micro_usd: 100, ...fields };
  return String((await api.call('POST', '/policies', { body })).body.id);
}

async function issue(principal_id: string, policy_id: string): Promise<{ id: string; key: string }> {
  return (await api.issue({ principal_id, policy_id })) as { id: string; key: string };
}

const create = async (fields: Json) =>
  await api.call('POST', '/overrides', {
    body: { limit_micro_usd: 250, reason: 'a launch', duration_seconds: 600, ...fields },
  });

const codeOf = ({ status, body }: { status: number; body: Json }) => [
  status,
  (body.error as Json | undefined)?.code,
];

/** A minute or more passes. */
function pass(seconds: number): void {
  api.now = new Date(api.now.getTime() + seconds * 1_000);
}

async function actionsOn(id: unknown): Promise<unknown[]> {
  const { body } = await api.call('GET', `/audit?resource_id=${String(id)}`);
  return (body.data as Json[]).map((entry) => [entry.action, entry.actor_principal_id]).reverse();
}

describe('an override', () => {
  it("replaces one principal's limit in every report, until its end comes", async () => {
    const policy_id = await policyOf();
    const { key } = await issue('ada', policy_id);
    const { key: others } = await issue('bob', policy_id);
    const windowStartMs = BigInt(Date.UTC(api.now.getUTCFullYear(), api.now.getUTCMonth()));
    const bucket = { policyId: policy_id, counterVersion: 1, subject: 'principal:ada', windowStartMs };
    await recordAttempts(api.db, [
      { principal: 'ada', costNano: 40_000n, buckets: [bucket], admittedAt: api.now },
    ]);
    const { body: made, status } = await create({ policy_id, principal_id: 'ada' });
    expect(status).toBe(201);
    expect(made).toMatchObject({ counter_scope: 'principal', key_id: null, active: true, ended_at: null });
    const shown = {
      id: made.id,
      limit_micro_usd: 250,
      reason: 'a launch',
      ends_at: new Date(api.now.getTime() + 600_000).toISOString(),
    };
    const usage = async (of: string) => (await api.call('GET', '/usage', { key: of })).body;
    const counter = async () =>
      ((await api.call('GET', `/policies/${policy_id}/counters`)).body.data as Json[])[0];
    expect(await usage(key)).toMatchObject({
      limit_micro_usd: 250,
      remaining_micro_usd: 210,
      headroom_micro_usd: 210,
      headroom_counter: { limit_micro_usd: 250 },
      override: shown,
    });
    expect(await usage(others)).toMatchObject({ limit_micro_usd: 100, override: null });
    expect(await counter()).toMatchObject({ limit_micro_usd: 250, headroom_micro_usd: 210, override: shown });
    expect((await api.call('GET', '/whoami', { key })).body.override).toEqual(shown);

    pass(600);
    // Whether it is recorded or not.
    expect(await usage(key)).toMatchObject({ limit_micro_usd: 100, override: null });
    const read = async () => (await api.call('GET', `/overrides/${String(made.id)}`)).body;
    expect(await read()).toMatchObject({ active: false, ended_at: null });
    await Promise.all([1, 2, 3].map(() => recordEnds({ db: api.db, now: () => api.now })));
    expect(await read()).toMatchObject({ active: false, ended_at: shown.ends_at });
    expect(await counter()).toMatchObject({ limit_micro_usd: 100, headroom_micro_usd: 60, override: null });
    expect(await actionsOn(made.id)).toEqual([
      ['override.created', 'operator'],
      ['override.ended', 'control-plane'],
    ]);
  });

  it('is changed and ended early, is then no one’s limit, and makes room for another', async () => {
    const policy_id = await policyOf({ counter_scope: 'policy' });
    const { body: made, headers } = await create({ policy_id });
    expect(made).toMatchObject({ counter_scope: 'policy', principal_id: null, key_id: null });
    expect(codeOf(await create({ policy_id }))).toEqual([409, 'override_exists']);
    const path = `/overrides/${String(made.id)}`;
    const body = { limit_micro_usd: 500, reason: 'a longer launch' };
    const changed = await api.call('PATCH', path, {
      body,
      headers: { 'if-match': String(headers.etag) },
    });
    expect(changed.body).toMatchObject(body);
    expect(codeOf(await api.call('PATCH', path, { body: { ends_at: '2001-01-01T00:00:00Z' } }))).toEqual([
      422,
      'ends_at_in_past',
    ]);
    expect((await api.call('DELETE', path)).body).toMatchObject({
      active: false,
      ended_at: api.now.toISOString(),
    });
    expect((await api.call('DELETE', path)).status).toBe(200);
    expect(codeOf(await api.call('PATCH', path, { body: { limit_micro_usd: 1 } }))).toEqual([
      409,
      'override_ended',
    ]);
    expect(await actionsOn(made.id)).toEqual([
      ['override.created', 'operator'],
      ['override.updated', 'operator'],
      ['override.ended', 'operator'],
    ]);
    expect((await create({ policy_id, duration_seconds: 1 })).status).toBe(201);
    pass(1);
    // The end of that one has come, though no one has recorded it.
    expect((await create({ policy_id })).status).toBe(201);
    const list = async (active: boolean) =>
      ((await api.call('GET', `/overrides?policy_id=${policy_id}&active=${active}`)).body.data as Json[])
        .length;
    expect([await list(true), await list(false)]).toEqual([1, 2]);
  });

  it('is of one counter of its policy, which has a limit', async () => {
    const perKey = await policyOf({ counter_scope: 'key' });
    const { id } = await issue('carl', perKey);
    expect((await create({ policy_id: perKey, key_id: id })).body).toMatchObject({
      counter_scope: 'key',
      key_id: id,
      principal_id: 'carl',
    });
    expect(codeOf(await create({ policy_id: perKey, principal_id: 'carl' }))).toEqual([
      422,
      'counter_mismatch',
    ]);
    const unlimited = await policyOf({ limit_micro_usd: null });
    expect(codeOf(await create({ policy_id: unlimited, principal_id: 'carl' }))).toEqual([
      422,
      'policy_unlimited',
    ]);
    // A policy that counts otherwise from now on has no such counter.
    const { body: before } = await create({ policy_id: await policyOf(), principal_id: 'carl' });
    await api.call('PATCH', `/policies/${String(before.policy_id)}`, { body: { counter_scope: 'policy' } });
    expect((await api.call('GET', `/overrides/${String(before.id)}`)).body.active).toBe(false);
  });
});
