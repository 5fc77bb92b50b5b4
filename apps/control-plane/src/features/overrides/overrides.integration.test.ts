import { newUuid } from '@weighbridge/domain';
import { answerLeaseCalls, registerProducer } from '@weighbridge/ledger';
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

describe('an override of a further limit', () => {
  const EACH = { name: 'each customer', counter_scope: 'user', window: 'day', limit_micro_usd: 5 };
  const POOLED = { name: 'large models', models: ['mock/*'], counter_scope: 'policy', limit_micro_usd: 7 };
  const PERSON = { name: 'each person', limit_micro_usd: 9 };

  async function limited(...limits: Json[]) {
    const policy_id = await policyOf({ limit_micro_usd: null, limits });
    const { body } = await api.call('GET', `/policies/${policy_id}`);
    const ids = (body.limits as Json[]).map(({ id }) => String(id));
    return { policy_id, ids };
  }

  /** What a proxy's next call for a counter is told of its limit, in nano-USD. */
  async function leased(policy_id: string, limitId: string | undefined, subject: string) {
    const holder = { producerId: newUuid(), epoch: newUuid() };
    await registerProducer(api.db, { ...holder, name: '', now: api.now });
    const windowStartMs = BigInt(Date.parse('2026-11-20T00:00:00Z'));
    const policyId = limitId === undefined ? policy_id : `${policy_id}.${limitId}`;
    const bucket = { policyId, counterVersion: 1, subject, windowStartMs };
    const amounts = { seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 1_000n, minimumNanoUsd: 1n };
    const calls = [{ bucket, ...amounts, keyId: 'key_1' }];
    const [result] = await answerLeaseCalls(api.db, { ...holder, calls, now: api.now });
    return [result?.outcome, result?.limitNanoUsd];
  }

  it('is of one value, whether it came or not, and holds for no other', async () => {
    const { policy_id, ids } = await limited(EACH);
    const limit_id = ids[0];
    const before = await leased(policy_id, limit_id, 'user:ann');
    const { body: made, status } = await create({
      ...{ policy_id, limit_id, value: ' ann ' },
      limit_micro_usd: 0,
    });
    expect([status, before]).toEqual([201, ['granted', 5_000n]]);
    expect(made).toMatchObject({
      ...{ policy_id, limit_id, limit_name: 'each customer', counter_scope: 'user', value: 'ann' },
      ...{ principal_id: null, key_id: null, limit_micro_usd: 0, active: true },
    });
    await create({ policy_id, limit_id, value: 'never came', limit_micro_usd: 8 });
    expect(codeOf(await create({ policy_id, limit_id, value: 'ann' }))).toEqual([409, 'override_exists']);
    expect(await leased(policy_id, limit_id, 'user:ann')).toEqual(['exhausted', 0n]);
    expect(await leased(policy_id, limit_id, 'user:bob')).toEqual(['granted', 5_000n]);
    expect(await leased(policy_id, limit_id, 'user:never came')).toEqual(['granted', 8_000n]);
    const listed = async () => {
      const path = `/policies/${policy_id}/counters?limit_id=${limit_id}&value=ann`;
      return ((await api.call('GET', path)).body.data as Json[])[0];
    };
    expect(await listed()).toMatchObject({
      limit_micro_usd: 0,
      override: { id: made.id, reason: 'a launch' },
    });
    const { body: audited } = await api.call('GET', `/audit?resource_id=${String(made.id)}`);
    expect((audited.data as Json[])[0]?.detail).toMatchObject({
      ...{ policy_id, limit_id, limit_name: 'each customer', value: 'ann' },
      ...{ limit_micro_usd: 0, policy_limit_micro_usd: 5 },
    });
    const found = async (query: string) =>
      ((await api.call('GET', `/overrides?${query}`)).body.data as Json[]).length;
    expect(await found(`policy_id=${policy_id}&active=true`)).toBe(2);
    expect(await found(`limit_id=${limit_id}`)).toBe(2);
    expect(await found(`limit_id=lim_none`)).toBe(0);
    await api.call('DELETE', `/overrides/${String(made.id)}`);
    expect(await leased(policy_id, limit_id, 'user:ann')).toEqual(['granted', 5_000n]);
  });

  it('ends by itself, or with the limit or what its counters are by, but not with a rename', async () => {
    const { policy_id, ids } = await limited(EACH);
    const [id] = ids;
    const given = async (value: string) => String((await create({ policy_id, limit_id: id, value })).body.id);
    const [first, second, third] = [await given('a'), await given('b'), await given('c')];
    const read = async (one: string) => (await api.call('GET', `/overrides/${one}`)).body;
    await api.call('PATCH', `/overrides/${first}`, {
      body: { ends_at: new Date(api.now.getTime() + 1_000).toISOString() },
    });
    pass(1);
    await recordEnds({ db: api.db, now: () => api.now });
    expect(await read(first)).toMatchObject({ active: false, ended_at: api.now.toISOString() });
    const patch = async (limits: Json[]) =>
      expect((await api.call('PATCH', `/policies/${policy_id}`, { body: { limits } })).status).toBe(200);
    await patch([{ ...EACH, id, name: 'every customer', window: 'hour' }]);
    expect(await read(second)).toMatchObject({ active: true, limit_name: 'every customer' });
    await patch([{ ...EACH, id, counter_scope: 'team' }]);
    for (const one of [second, third]) {
      expect(await read(one)).toMatchObject({ active: false, ended_at: api.now.toISOString() });
      expect(await actionsOn(one)).toEqual([
        ['override.created', 'operator'],
        ['override.ended', 'operator'],
      ]);
    }
    const last = await given('a');
    await patch([]);
    expect(await read(last)).toMatchObject({ active: false, limit_id: id, limit_name: null, value: 'a' });
  });

  it('names what its limit has counters for, by fields that say what is wrong', async () => {
    const { policy_id, ids } = await limited(EACH, POOLED, PERSON);
    const [each, pooled, person] = ids;
    const refused = async (fields: Json) => {
      const { status, body } = await create({ policy_id, ...fields });
      const { code, param } = body.error as Json;
      return [status, code, param];
    };
    const mismatch = (param: string) => [422, 'counter_mismatch', param];
    expect(await refused({ limit_id: each })).toEqual(mismatch('value'));
    expect(await refused({ limit_id: each, value: '  ' })).toEqual(mismatch('value'));
    expect(await refused({ limit_id: each, principal_id: 'ada' })).toEqual(mismatch('principal_id'));
    expect(await refused({ limit_id: pooled, value: 'ann' })).toEqual(mismatch('value'));
    expect(await refused({ limit_id: person, value: 'ada' })).toEqual(mismatch('value'));
    expect(await refused({ value: 'ann' })).toEqual(mismatch('value'));
    expect(await refused({ limit_id: 'lim_none', value: 'ann' })).toEqual([
      422,
      'limit_not_found',
      'limit_id',
    ]);
    expect(await refused({ limit_id: each, value: 'a\0b' })).toEqual([400, 'invalid_request', 'value']);
    expect((await create({ policy_id, limit_id: pooled })).body).toMatchObject({
      counter_scope: 'policy',
      value: null,
    });
    await issue('ada', policy_id);
    expect((await create({ policy_id, limit_id: person, principal_id: 'ada' })).body).toMatchObject({
      counter_scope: 'principal',
      principal_id: 'ada',
    });
    expect(await refused({ limit_id: person, principal_id: 'operator' })).toEqual([
      403,
      'own_override',
      null,
    ]);
    // A value may have any character that a header may carry.
    for (const value of ['a:b/c#d', 'user:ann', '✓ ü', 'a\tb\u0085', "'; DROP TABLE x", 's'.repeat(9_000)]) {
      expect((await create({ policy_id, limit_id: each, value })).body).toMatchObject({ value });
    }
    expect(await leased(policy_id, each, 'user:user:ann')).toEqual(['granted', 250_000n]);
  });
});
