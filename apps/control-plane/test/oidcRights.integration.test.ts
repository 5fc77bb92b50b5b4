import { TEST_AUDIENCE, type TestClaims } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { DEFAULT_SCOPES } from '../src/shared/scopes.ts';
import { SCOPE_MAP, useOidcApi } from './oidcApi.ts';
import { outcome, startTestApi } from './testApi.ts';

const oidc = useOidcApi();
const { by, seconds, token } = oidc;

describe('what a token may do', () => {
  it('is what the settings map its groups to, and nothing else', async () => {
    expect(await outcome(oidc.api.call('GET', '/keys', await by()))).toEqual([200, undefined]);
    for (const groups of [undefined, [], ['strangers'], ['keys:read'], ['operator']]) {
      const response = await oidc.api.call('GET', '/keys', await by({ groups, scope: 'keys:read operator' }));
      expect([response.status, response.body.error]).toMatchObject([
        403,
        {
          code: 'insufficient_scope',
          required_scope: 'keys:read',
          message: 'This token lacks the scope keys:read.',
        },
      ]);
    }
    expect(await outcome(oidc.api.call('GET', '/policies', await by({ groups: ['users'] })))).toEqual([
      403,
      'insufficient_scope',
    ]);
    expect(await outcome(oidc.api.call('GET', '/policies', await by({ groups: ['admins'] })))).toEqual([
      200,
      undefined,
    ]);
  });

  it('is nothing for an unknown principal, whatever its groups, and does not create that principal', async () => {
    const response = await oidc.api.call('GET', '/keys', await by({ sub: 'stranger', groups: ['admins'] }));
    expect([response.status, response.body.error]).toMatchObject([403, { code: 'principal_unknown' }]);
    expect(await outcome(oidc.api.call('GET', '/principals/stranger'))).toEqual([404, 'principal_not_found']);
    expect(await outcome(oidc.api.call('GET', '/keys', await by({ sub: ' ' })))).toEqual([
      403,
      'principal_unknown',
    ]);
  });

  it("covers only its own principal's keys, without the scope operator", async () => {
    const bobs = await oidc.api.issue({ principal_id: 'bob' });
    const adas = await oidc.api.issue({ principal_id: 'ada' });
    const ada = await by({ groups: ['users'] });
    expect(await outcome(oidc.api.call('GET', `/keys/${adas.id}`, ada))).toEqual([200, undefined]);
    expect(await outcome(oidc.api.call('GET', `/keys/${bobs.id}`, ada))).toEqual([404, 'key_not_found']);
    expect(
      await outcome(oidc.api.call('PATCH', `/keys/${bobs.id}`, { ...ada, body: { name: 'x' } })),
    ).toEqual([404, 'key_not_found']);
    const { data } = (await oidc.api.call('GET', '/keys', ada)).body as { data: { principal_id: string }[] };
    expect(new Set(data.map(({ principal_id }) => principal_id))).toEqual(new Set(['ada']));
  });

  it('does not include inference: proxies accept only keys', async () => {
    await expect(oidc.api.resolve(await token())).rejects.toThrow('no key');
  });
});

describe('a key that is issued by a token', () => {
  const issue = async (body: object, who: TestClaims = { groups: ['users'] }) =>
    await oidc.api.call('POST', '/keys', { ...(await by(who)), body: { name: 'by a token', ...body } });
  const expiresAt = () => new Date((seconds() + 3_600) * 1_000).toISOString();

  it("belongs to the token's principal, has the token's scopes and expires with it", async () => {
    const { status, body } = await issue({});
    expect(status).toBe(201);
    expect(body).toMatchObject({ principal_id: 'ada', scopes: [...DEFAULT_SCOPES], expires_at: expiresAt() });
    expect((await issue({ scopes: ['keys:read', 'inference'] })).body.scopes).toEqual([
      'keys:read',
      'inference',
    ]);
  });

  it.each([
    ['scope_escalation', { scopes: ['operator'] }],
    ['scope_escalation', { scopes: ['keys:read', 'operator', 'inference'] }],
    ['principal_not_allowed', { principal_id: 'bob' }],
    ['attribution_not_allowed', { attribution: { team: 'x' } }],
    ['expiry_too_late', { expires_at: '2027-01-01T00:00:00Z' }],
    ['expiry_too_late', { expires_at: null }],
  ])('is not issued with more than that: %s for %j', async (code, body) => {
    const response = await issue(body);
    expect([response.status, response.body.error]).toMatchObject([403, { code }]);
  });

  it('has no scope that the token lacks', async () => {
    expect((await oidc.api.call('POST', '/keys', { ...(await by()), body: { name: 'x' } })).status).toBe(403);
    const scopes = (await issue({}, { groups: ['users', 'strangers'] })).body.scopes;
    expect(scopes).toEqual([...DEFAULT_SCOPES]);
  });

  it('accepts only the governing policy of its principal, or a self-service policy', async () => {
    const policy = async (fields: object) =>
      (await oidc.api.call('POST', '/policies', { body: { name: 'p', ...fields } })).body.id as string;
    const theirs = await issue({ policy_id: await policy({}) });
    expect([theirs.status, theirs.body.error]).toMatchObject([403, { code: 'policy_not_assignable' }]);
    expect((await issue({ policy_id: await policy({ self_service: true }) })).status).toBe(201);
  });

  it('is rotated by a token only if that token could have issued it', async () => {
    const forever = await oidc.api.issue({ principal_id: 'ada' });
    const rotate = async (id: unknown, who?: TestClaims) =>
      await outcome(oidc.api.call('POST', `/keys/${id}/rotate`, await by({ groups: ['users'], ...who })));
    expect(await rotate(forever.id)).toEqual([403, 'expiry_too_late']);
    expect(await rotate(forever.id, { groups: ['admins'] })).toEqual([200, undefined]);
    expect(await rotate((await issue({})).body.id)).toEqual([200, undefined]);
  });

  it('mints no fresh budget under a key-scoped policy, not even two at a time', async () => {
    const policy_id = (
      await oidc.api.call('POST', '/policies', {
        body: { name: 'each key', counter_scope: 'key', limit_micro_usd: 1_000 },
      })
    ).body.id;
    await oidc.api.call('PUT', '/principals/eve', { body: { policy_id } });
    const eve = { sub: 'eve', groups: ['users'] };
    expect((await oidc.api.call('GET', '/usage', await by(eve))).body).toMatchObject({
      policy_id,
      source: 'principal',
      counter_scope: 'key',
      bucket_spent_micro_usd: 0,
      remaining_micro_usd: 1_000,
    });
    const ids = (await Promise.all([issue({}, eve), issue({}, eve), issue({}, eve)])).map(
      ({ body }) => body.id,
    );
    const counters = await oidc.api.db
      .selectFrom('keys')
      .select('counter_key_id')
      .where('id', 'in', ids as string[])
      .execute();
    expect(new Set(counters.map((row) => row.counter_key_id)).size).toBe(1);
    // A key that an operator issues has its own counter.
    const { id } = await oidc.api.issue({ principal_id: 'eve' }, await token({ groups: ['admins'] }));
    const row = await oidc.api.db
      .selectFrom('keys')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row.counter_key_id).toBe(id);
  });
});

it('a token has the usage and the models of its principal', async () => {
  const usage = await oidc.api.call('GET', '/usage', await by());
  expect([usage.status, usage.body]).toMatchObject([200, { source: 'default', counter_scope: 'principal' }]);
  const models = await oidc.api.call('GET', '/models', await by({ groups: ['users'] }));
  expect((models.body.data as unknown[]).length).toBeGreaterThan(0);
});

it('a token whose principal has no governing policy gets an error that says so', async () => {
  const bare = await startTestApi({
    OIDC_ISSUER: oidc.issuer.url,
    OIDC_AUDIENCE: TEST_AUDIENCE,
    OIDC_SCOPE_MAP: SCOPE_MAP,
    OIDC_PRINCIPAL_PREFIX: 'sso:',
  });
  try {
    const { data } = (await bare.call('GET', '/policies')).body as { data: { id: string }[] };
    const policy = data[0]?.id as string;
    const keys = (await bare.call('GET', '/keys')).body as { data: { id: string }[] };
    for (const { id } of keys.data) await bare.call('PATCH', `/keys/${id}`, { body: { policy_id: policy } });
    await bare.call('PATCH', `/policies/${policy}`, { body: { default_for: null } });
    await bare.call('PUT', '/principals/sso:ada', { body: { policy_id: null } });
    const ada = await by({ groups: ['users', 'admins'] });
    for (const path of ['/usage', '/models']) {
      expect(await outcome(bare.call('GET', path, ada))).toEqual([403, 'governing_policy_required']);
    }
    expect(await outcome(bare.call('POST', '/keys', { ...ada, body: { name: 'x' } }))).toEqual([
      422,
      'governing_policy_required',
    ]);
    expect(await outcome(bare.call('GET', '/policies', ada))).toEqual([200, undefined]);
  } finally {
    await bare.close();
  }
});

describe('an Idempotency-Key of a token', () => {
  const headers = { 'idempotency-key': 'once' };
  const create = async (key: string, name = 'once') =>
    await oidc.api.call('POST', '/keys', { key, body: { name }, headers });

  it('replays the first response to the same caller and token', async () => {
    const key = await token({ groups: ['users'] });
    const first = await create(key);
    const again = await create(key);
    expect(again.headers['idempotency-replayed']).toBe('true');
    expect(again.body).toEqual(first.body);
    expect(await outcome(create(key, 'another'))).toEqual([409, 'idempotency_key_reused']);
    // Another token of the same subject can't open what the first one sealed.
    const next = await token({ groups: ['users'], jti: 'another' });
    expect(await outcome(create(next))).toEqual([409, 'idempotency_key_reused']);
  });

  it('is not shared with another subject or a key', async () => {
    const bobs = await create(await token({ sub: 'bob', groups: ['users'] }));
    const operators = await create(oidc.api.operatorKey);
    expect([bobs.status, bobs.body.principal_id]).toEqual([201, 'bob']);
    expect([operators.status, operators.body.principal_id]).toEqual([201, 'operator']);
  });
});

it('the audit log shows the issuer and the subject of an action, and never the token', async () => {
  const key = await token({ sub: 'bob', groups: ['admins'] });
  const { body } = await oidc.api.call('POST', '/policies', { key, body: { name: 'by bob' } });
  const log = await oidc.api.call('GET', `/audit?resource_id=${body.id}`, { key });
  expect(log.body.data).toEqual([
    expect.objectContaining({
      action: 'policy.created',
      actor_principal_id: 'bob',
      actor_key_id: null,
      actor_oidc_issuer: oidc.issuer.url,
      actor_oidc_subject: 'bob',
    }),
  ]);
  const keys = await oidc.api.call('POST', '/policies', { body: { name: 'by a key' } });
  const of = await oidc.api.call('GET', `/audit?resource_id=${keys.body.id}`);
  expect(of.body.data).toEqual([
    expect.objectContaining({ actor_key_id: expect.stringMatching(/^key_/), actor_oidc_issuer: null }),
  ]);
  expect(JSON.stringify(log.body) + oidc.api.log()).not.toContain(key.split('.')[2]);
});
