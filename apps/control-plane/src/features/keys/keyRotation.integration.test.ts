import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { SCOPES } from '../../shared/scopes.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

async function policy(fields: Json = {}): Promise<string> {
  const body = { name: 'p', limit_micro_usd: 1_000, ...fields };
  return (await api.call('POST', '/policies', { body })).body.id as string;
}

let principals = 0;
const newPrincipal = () => `person-${++principals}`;

const rotate = (id: string, key: string, body: Json = {}) =>
  outcome(api.call('POST', `/keys/${id}/rotate`, { key, body }));
const refused = [403, 'rotation_not_allowed'];
const allowed = [200, undefined];

describe('rotating another key of the same principal', () => {
  /** The outcome for a caller and a sibling that an operator issued. */
  async function rotateSibling(caller: Json, sibling: Json) {
    const principal_id = newPrincipal();
    const mine = await api.issue({ principal_id, ...caller });
    const other = await api.issue({ principal_id, ...sibling });
    return await rotate(other.id, mine.key);
  }

  it.each([
    ['key', refused],
    ['principal', allowed],
    ['policy', allowed],
  ] as const)('with counter_scope %s: %j', async (counter_scope, expected) => {
    const policy_id = await policy({ counter_scope });
    expect(await rotateSibling({ policy_id }, { policy_id })).toEqual(expected);
  });

  it('is refused if only the counter of a parent policy differs', async () => {
    const top = await policy({ counter_scope: 'key' });
    const middle = await policy({ counter_scope: 'policy', parent_policy_id: top });
    const policy_id = await policy({ counter_scope: 'principal', parent_policy_id: middle });
    expect(await rotateSibling({ policy_id }, { policy_id })).toEqual(refused);
  });

  it('is refused under another policy, even one that the caller may assign', async () => {
    const own = { policy_id: await policy({ counter_scope: 'principal' }) };
    const self_service = await policy({ counter_scope: 'principal', self_service: true });
    expect(await rotateSibling(own, { policy_id: self_service })).toEqual(refused);
    expect(await rotateSibling(own, { policy_id: await policy() })).toEqual([403, 'policy_not_assignable']);
  });

  it('is allowed if the caller issued the key, since that draws on its own counter', async () => {
    const policy_id = await policy({ counter_scope: 'key' });
    const attribution = { team: 'a', labels: { x: '1' } };
    const mine = await api.issue({ principal_id: newPrincipal(), policy_id, attribution });
    const minted = await api.issue({}, mine.key);
    expect(await rotate(minted.id, mine.key)).toEqual(allowed);
    expect(await rotate(mine.id, (await api.issue({}, mine.key)).key)).toEqual(allowed);
  });

  it.each([
    [{}, { team: 'a' }, refused],
    [{ team: 'a' }, {}, refused],
    [{ team: 'a' }, { team: 'b' }, refused],
    [{ team: 'a' }, { team: 'a', user: 'ada' }, refused],
    [{ labels: { x: '1' } }, { labels: { x: '2' } }, refused],
    [{ labels: { x: '1' } }, {}, refused],
    [{ labels: {} }, {}, allowed],
    [{ team: 'a', labels: { x: '1', yy: '2' } }, { labels: { yy: '2', x: '1' }, team: 'a' }, allowed],
  ])('compares attribution: %j and %j', async (mine, other, expected) => {
    const policy_id = await policy({ counter_scope: 'policy' });
    const keys = [
      { policy_id, attribution: mine },
      { policy_id, attribution: other },
    ] as const;
    expect(await rotateSibling(...keys)).toEqual(expected);
  });

  it('says what differs, and leaves the secret and the audit log as they were', async () => {
    const policy_id = await policy({ counter_scope: 'key' });
    const principal_id = newPrincipal();
    const [mine, other] = [
      await api.issue({ principal_id, policy_id }),
      await api.issue({ principal_id, policy_id }),
    ];
    const { body } = await api.call('POST', `/keys/${other.id}/rotate`, { key: mine.key });
    expect(body.error).toMatchObject({
      type: 'permission_error',
      message:
        'This key draws on another counter than your key. Rotate it with its own secret, or ask an operator.',
    });
    expect((await api.call('GET', '/usage', { key: other.key })).status).toBe(200);
    expect((await api.call('GET', `/keys/${other.id}`)).body.key_hint).toBe(other.key_hint);
    const entries = await api.db
      .selectFrom('audit_log')
      .select('action')
      .where('resource_id', '=', other.id)
      .execute();
    expect(entries).toEqual([{ action: 'key.created' }]);
  });

  it('is allowed to the key itself and to an operator, whatever its counter and attribution', async () => {
    const policy_id = await policy({ counter_scope: 'key' });
    const { id, key } = await api.issue({
      principal_id: newPrincipal(),
      policy_id,
      attribution: { team: 'a' },
    });
    expect(await rotate(id, key)).toEqual(allowed);
    expect(await rotate(id, api.operatorKey)).toEqual(allowed);
  });
});

describe('a secret in its grace period', () => {
  const later = (ms: number) => {
    api.now = new Date(api.now.getTime() + ms);
  };
  const writes = (id: string, key: string) =>
    Promise.all([
      rotate(id, key),
      outcome(api.call('PATCH', `/keys/${id}`, { key, body: { name: 'renamed' } })),
      outcome(api.call('PATCH', `/keys/${id}`, { key, body: {} })),
      outcome(api.call('POST', '/keys', { key, body: { name: 'another' } })),
      outcome(api.call('DELETE', `/keys/${id}`, { key })),
    ]);
  const inGrace = [403, 'secret_in_grace'];

  it.each([
    ['a plain key', undefined],
    ['an operator', [...SCOPES]],
  ])('of %s reads and infers, and writes no key', async (_, scopes) => {
    const { id, key } = await api.issue({ principal_id: newPrincipal(), scopes });
    const other = await api.issue({ principal_id: newPrincipal() });
    const { body: rotated } = await api.call('POST', `/keys/${id}/rotate`, {
      key,
      body: { grace_seconds: 60 },
    });
    expect(await writes(id, key)).toEqual(Array(5).fill(inGrace));
    // It does not learn which other keys exist.
    expect(await rotate(other.id, key)).toEqual(inGrace);
    expect(await rotate('key_x', key)).toEqual(inGrace);
    for (const path of ['/keys', `/keys/${id}`, '/usage', '/models']) {
      expect((await api.call('GET', path, { key })).status).toBe(200);
    }
    expect((await api.resolve(key)).id).toBe(id);
    expect((await api.call('GET', `/keys/${id}`)).body).toMatchObject({
      key_hint: rotated.key_hint,
      disabled: false,
    });
    const fresh = String(rotated.key);
    expect((await api.call('PATCH', `/keys/${id}`, { key: fresh, body: { name: 'renamed' } })).status).toBe(
      200,
    );
    expect(await rotate(id, fresh)).toEqual(allowed);
    later(60_000);
    expect(await outcome(api.call('GET', '/usage', { key }))).toEqual([401, 'invalid_api_key']);
  });

  it('gets no secret by repeating a request under its Idempotency-Key', async () => {
    const { id, key } = await api.issue({ principal_id: newPrincipal() });
    const create = () =>
      outcome(
        api.call('POST', '/keys', { key, body: { name: 'once' }, headers: { 'idempotency-key': 'once' } }),
      );
    expect(await create()).toEqual([201, undefined]);
    await api.call('POST', `/keys/${id}/rotate`, { body: { grace_seconds: 60 } });
    expect(await create()).toEqual(inGrace);
  });

  it('stays so after further rotations', async () => {
    const { id, key } = await api.issue({ principal_id: newPrincipal() });
    const { body: second } = await api.call('POST', `/keys/${id}/rotate`, { body: { grace_seconds: 600 } });
    await api.call('POST', `/keys/${id}/rotate`, { body: { grace_seconds: 600 } });
    for (const old of [key, String(second.key)])
      expect(await writes(id, old)).toEqual(Array(5).fill(inGrace));
  });

  it('lacks what its scopes lack, as before', async () => {
    const { id, key } = await api.issue({ scopes: ['keys:read'] });
    await api.call('POST', `/keys/${id}/rotate`, { body: { grace_seconds: 60 } });
    expect(await rotate(id, key)).toEqual([403, 'insufficient_scope']);
  });
});
