import { createHmac } from 'node:crypto';
import { startTestIssuer, TEST_AUDIENCE, type TestClaims, type TestIssuer } from '@weighbridge/testing';
import { exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DEFAULT_SCOPES } from '../src/features/access/scopes.ts';
import { outcome, startTestApi, type TestApi } from './testApi.ts';

const SCOPE_MAP = {
  admins: [...DEFAULT_SCOPES, 'operator'],
  users: DEFAULT_SCOPES,
  readers: ['keys:read', 'usage:read'],
};

let issuer: TestIssuer;
let api: TestApi;

beforeAll(async () => {
  issuer = await startTestIssuer();
  api = await startTestApi({
    OPENAI_API_KEY: 'sk-vendor',
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: `another, ${TEST_AUDIENCE}`,
    OIDC_SCOPE_MAP: JSON.stringify(SCOPE_MAP),
  });
  for (const principal of ['ada', 'bob', 'eve']) await makePrincipal(principal);
});
afterAll(async () => {
  await api.close();
  await issuer.close();
});

async function makePrincipal(id: string): Promise<void> {
  const { status } = await api.call('PUT', `/principals/${id}`, { body: { policy_id: null } });
  expect(status).toBe(200);
}

const token = (claims?: TestClaims) => issuer.token(api.now, { groups: ['readers'], ...claims });
const by = async (claims?: TestClaims) => ({ key: await token(claims) });
const seconds = () => Math.floor(api.now.getTime() / 1_000);
const read = (key: string) => outcome(api.call('GET', '/keys', { key }));

/** A token with this header, signed by what is given, whatever a library would say to it. */
function handmade(header: object, claims: object, sign: (text: string) => string): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${sign(text)}`;
}

const claims = () => ({
  iss: issuer.url,
  aud: TEST_AUDIENCE,
  sub: 'ada',
  groups: ['admins'],
  exp: seconds() + 60,
});

describe('a token is taken', () => {
  it('that the issuer made for this service', async () => {
    expect(await read(await token())).toEqual([200, undefined]);
    expect(await read(await token({ aud: ['somebody', TEST_AUDIENCE] }))).toEqual([200, undefined]);
    expect(await read(await token({ aud: 'another' }))).toEqual([200, undefined]);
  });

  it('by a clock that differs a little, either way', async () => {
    expect(await read(await token({ exp: seconds() - 20 }))).toEqual([200, undefined]);
    expect(await read(await token({ nbf: seconds() + 20 }))).toEqual([200, undefined]);
  });
});

const REFUSED: Record<string, [token: () => Promise<string> | string, code: string, why: RegExp]> = {
  'that another issuer made': [
    () => token({ iss: 'https://example.com' }),
    'invalid_token',
    /another issuer/,
  ],
  'that names no issuer': [() => token({ iss: undefined }), 'invalid_token', /another issuer/],
  'that is for another service': [
    () => token({ aud: 'somebody' }),
    'invalid_token',
    /another service \(aud\)/,
  ],
  'that is for nobody': [() => token({ aud: undefined }), 'invalid_token', /has no aud/],
  'that is expired': [() => token({ exp: seconds() - 31 }), 'token_expired', /expired/],
  'that never expires': [() => token({ exp: undefined }), 'invalid_token', /has no exp/],
  'that is not valid yet': [() => token({ nbf: seconds() + 31 }), 'invalid_token', /not valid yet/],
  'of nobody': [() => token({ sub: undefined }), 'invalid_token', /has no sub/],
  'without a signature': [
    () => new UnsecuredJWT(claims()).encode(),
    'invalid_token',
    /its alg is not one of/,
  ],
  'with an alg of other letters': [
    async () => handmade({ alg: 'nOnE', kid: '1' }, claims(), () => ''),
    'invalid_token',
    /its alg is not one of/,
  ],
  'that is signed with the public key as a secret': [
    async () => {
      const secret = await exportSPKI(
        (await importJWK(issuer.publicKey, 'ES256', { extractable: true })) as never,
      );
      return handmade({ alg: 'HS256', kid: '1' }, claims(), (text) =>
        createHmac('sha256', secret).update(text).digest('base64url'),
      );
    },
    'invalid_token',
    /its alg is not one of/,
  ],
  'that somebody else signed by the same name': [
    async () => {
      const { privateKey } = await generateKeyPair('ES256');
      const kid = issuer.publicKey.kid as string;
      return await new SignJWT(claims()).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey);
    },
    'invalid_token',
    /its signature/,
  ],
  'that brings its own key': [
    async () => {
      const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
      const jwk = await crypto.subtle.exportKey('jwk', publicKey);
      const header = { alg: 'ES256', kid: '1', jwk: jwk as never };
      return await new SignJWT(claims()).setProtectedHeader(header).sign(privateKey);
    },
    'invalid_token',
    /its signature/,
  ],
  'of a key that the issuer does not have': [
    () => issuer.token(api.now, {}, { kid: 'made up' }),
    'invalid_token',
    /no such key/,
  ],
  'that was changed after it was signed': [
    async () => {
      const [header, , signature] = (await token()).split('.');
      return `${header}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}.${signature}`;
    },
    'invalid_token',
    /its signature/,
  ],
  'that is no token': [() => 'a.b.c', 'invalid_token', /can not be read/],
};

it.each(Object.entries(REFUSED))('no token is taken %s', async (_which, [made, code, why]) => {
  const { status, body, headers } = await api.call('GET', '/keys', { key: await made() });
  expect([status, body.error]).toMatchObject([401, { type: 'authentication_error', code }]);
  expect((body.error as { message: string }).message).toMatch(why);
  expect(headers['www-authenticate']).toBe('Bearer');
});

it('what is not even shaped like a token is looked up as a key', async () => {
  for (const text of ['x', 'a.b', 'a.b.c.d', 'a.b.c.d.e', '..', 'sk-svc-nonsense']) {
    expect(await read(text)).toEqual([401, 'invalid_api_key']);
  }
});

describe('what a token may do', () => {
  it('is what its groups give by the settings, and nothing else', async () => {
    expect(await outcome(api.call('GET', '/keys', await by()))).toEqual([200, undefined]);
    for (const groups of [undefined, [], ['strangers'], ['keys:read'], ['operator']]) {
      const answer = await api.call('GET', '/keys', await by({ groups, scope: 'keys:read operator' }));
      expect([answer.status, answer.body.error]).toMatchObject([
        403,
        {
          code: 'insufficient_scope',
          required_scope: 'keys:read',
          message: 'This token lacks the scope keys:read.',
        },
      ]);
    }
    expect(await outcome(api.call('GET', '/policies', await by({ groups: ['users'] })))).toEqual([
      403,
      'insufficient_scope',
    ]);
    expect(await outcome(api.call('GET', '/policies', await by({ groups: ['admins'] })))).toEqual([
      200,
      undefined,
    ]);
  });

  it('is nothing for a principal that nobody made, whatever its groups: and it is not made by that', async () => {
    const answer = await api.call('GET', '/keys', await by({ sub: 'stranger', groups: ['admins'] }));
    expect([answer.status, answer.body.error]).toMatchObject([403, { code: 'principal_unknown' }]);
    expect(await outcome(api.call('GET', '/principals/stranger'))).toEqual([404, 'principal_not_found']);
    expect(await outcome(api.call('GET', '/keys', await by({ sub: ' ' })))).toEqual([
      403,
      'principal_unknown',
    ]);
  });

  it("is about its own principal's keys only, without operator", async () => {
    const bobs = await api.issue({ principal_id: 'bob' });
    const adas = await api.issue({ principal_id: 'ada' });
    const ada = await by({ groups: ['users'] });
    expect(await outcome(api.call('GET', `/keys/${adas.id}`, ada))).toEqual([200, undefined]);
    expect(await outcome(api.call('GET', `/keys/${bobs.id}`, ada))).toEqual([404, 'key_not_found']);
    expect(await outcome(api.call('PATCH', `/keys/${bobs.id}`, { ...ada, body: { name: 'x' } }))).toEqual([
      404,
      'key_not_found',
    ]);
    const { data } = (await api.call('GET', '/keys', ada)).body as { data: { principal_id: string }[] };
    expect(new Set(data.map(({ principal_id }) => principal_id))).toEqual(new Set(['ada']));
  });

  it('is nothing at inference: a proxy knows keys alone', async () => {
    await expect(api.resolve(await token())).rejects.toThrow('no key');
  });
});

describe('a key that is issued by a token', () => {
  const issue = async (body: object, who: TestClaims = { groups: ['users'] }) =>
    await api.call('POST', '/keys', { ...(await by(who)), body: { name: 'by a token', ...body } });
  const expiresAt = () => new Date((seconds() + 3_600) * 1_000).toISOString();

  it("is of the token's principal, may what the token may, and ends with it", async () => {
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
  ])('is not issued beyond that: %s for %j', async (code, body) => {
    const answer = await issue(body);
    expect([answer.status, answer.body.error]).toMatchObject([403, { code }]);
  });

  it('has no scope that its issuer has not got', async () => {
    expect((await api.call('POST', '/keys', { ...(await by()), body: { name: 'x' } })).status).toBe(403);
    const scopes = (await issue({}, { groups: ['users', 'strangers'] })).body.scopes;
    expect(scopes).toEqual([...DEFAULT_SCOPES]);
  });

  it('takes no other policy than the one that governs its principal, or one for all to choose', async () => {
    const policy = async (fields: object) =>
      (await api.call('POST', '/policies', { body: { name: 'p', ...fields } })).body.id as string;
    const theirs = await issue({ policy_id: await policy({}) });
    expect([theirs.status, theirs.body.error]).toMatchObject([403, { code: 'policy_not_assignable' }]);
    expect((await issue({ policy_id: await policy({ self_service: true }) })).status).toBe(201);
  });

  it('is rotated by one only where it could have been issued by it', async () => {
    const forever = await api.issue({ principal_id: 'ada' });
    const rotate = async (id: unknown, who?: TestClaims) =>
      await outcome(api.call('POST', `/keys/${id}/rotate`, await by({ groups: ['users'], ...who })));
    expect(await rotate(forever.id)).toEqual([403, 'expiry_too_late']);
    expect(await rotate(forever.id, { groups: ['admins'] })).toEqual([200, undefined]);
    expect(await rotate((await issue({})).body.id)).toEqual([200, undefined]);
  });

  it('mints no fresh budget under a key-scoped policy, not even two at a time', async () => {
    const policy_id = (
      await api.call('POST', '/policies', {
        body: { name: 'each key', counter_scope: 'key', limit_micro_usd: 1_000 },
      })
    ).body.id;
    await api.call('PUT', '/principals/eve', { body: { policy_id } });
    const eve = { sub: 'eve', groups: ['users'] };
    expect((await api.call('GET', '/usage', await by(eve))).body).toMatchObject({
      policy_id,
      source: 'principal',
      counter_scope: 'key',
      bucket_spent_micro_usd: 0,
      remaining_micro_usd: 1_000,
    });
    const ids = (await Promise.all([issue({}, eve), issue({}, eve), issue({}, eve)])).map(
      ({ body }) => body.id,
    );
    const counters = await api.db
      .selectFrom('keys')
      .select('counter_key_id')
      .where('id', 'in', ids as string[])
      .execute();
    expect(new Set(counters.map((row) => row.counter_key_id)).size).toBe(1);
    // What an operator issues has one of its own, as ever.
    const { id } = await api.issue({ principal_id: 'eve' }, await token({ groups: ['admins'] }));
    const row = await api.db.selectFrom('keys').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
    expect(row.counter_key_id).toBe(id);
  });
});

it('a token has the usage and the models of its principal', async () => {
  const usage = await api.call('GET', '/usage', await by());
  expect([usage.status, usage.body]).toMatchObject([200, { source: 'default', counter_scope: 'principal' }]);
  const models = await api.call('GET', '/models', await by({ groups: ['users'] }));
  expect((models.body.data as unknown[]).length).toBeGreaterThan(0);
});

it('where no policy governs its principal, a token is told so', async () => {
  const bare = await startTestApi({
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: TEST_AUDIENCE,
    OIDC_SCOPE_MAP: JSON.stringify(SCOPE_MAP),
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
    await api.call('POST', '/keys', { key, body: { name }, headers });

  it('has the first answer given again, to the same caller and token', async () => {
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

  it("is nobody else's: neither another subject's nor a key's", async () => {
    const bobs = await create(await token({ sub: 'bob', groups: ['users'] }));
    const operators = await create(api.operatorKey);
    expect([bobs.status, bobs.body.principal_id]).toEqual([201, 'bob']);
    expect([operators.status, operators.body.principal_id]).toEqual([201, 'operator']);
  });
});

it('the audit log says which issuer and which subject of it did something, and never the token', async () => {
  const key = await token({ sub: 'bob', groups: ['admins'] });
  const { body } = await api.call('POST', '/policies', { key, body: { name: 'by bob' } });
  const log = await api.call('GET', `/audit?resource_id=${body.id}`, { key });
  expect(log.body.data).toEqual([
    expect.objectContaining({
      action: 'policy.created',
      actor_principal_id: 'bob',
      actor_key_id: null,
      actor_oidc_issuer: issuer.url,
      actor_oidc_subject: 'bob',
    }),
  ]);
  const keys = await api.call('POST', '/policies', { body: { name: 'by a key' } });
  const of = await api.call('GET', `/audit?resource_id=${keys.body.id}`);
  expect(of.body.data).toEqual([
    expect.objectContaining({ actor_key_id: expect.stringMatching(/^key_/), actor_oidc_issuer: null }),
  ]);
  expect(JSON.stringify(log.body) + api.log()).not.toContain(key.split('.')[2]);
});

it('when the issuer replaces its key, new tokens are taken, and old ones no more', async () => {
  const before = await token();
  expect(await read(before)).toEqual([200, undefined]);
  await issuer.replaceKey();
  api.now = new Date(api.now.getTime() + 11_000);
  expect(await read(await token())).toEqual([200, undefined]);
  expect(await read(before)).toEqual([401, 'invalid_token']);
});

it('while the issuer is down tokens are 503 once their keys are too old, and keys go on', async () => {
  issuer.misbehave((_request, response) => response.destroy());
  expect(await read(await token())).toEqual([200, undefined]);
  api.now = new Date(api.now.getTime() + 2 * 60 * 60_000);
  const answer = await api.call('GET', '/keys', { key: await token() });
  expect([answer.status, answer.body.error]).toMatchObject([503, { code: 'oidc_issuer_unavailable' }]);
  expect(answer.headers['retry-after']).toBe('10');
  expect(JSON.stringify(answer.body)).not.toContain(issuer.url);
  expect(await read(api.operatorKey)).toEqual([200, undefined]);
  // What is wrong with it can be told without the issuer.
  expect(await read(await token({ iss: 'https://example.com' }))).toEqual([401, 'invalid_token']);

  issuer.misbehave((_request, response) => response.end('{"issuer": "https://example.com"}'));
  api.now = new Date(api.now.getTime() + 11_000);
  expect((await api.call('GET', '/keys', { key: await token() })).status).toBe(503);
  issuer.misbehave(undefined);
  api.now = new Date(api.now.getTime() + 11_000);
  expect(await read(await token())).toEqual([200, undefined]);
});

it('tokens that can be refused as they are make nobody ask the issuer', async () => {
  const before = issuer.timesRead;
  api.now = new Date(api.now.getTime() + 10 * 60_000);
  for (const iss of ['https://example.com', undefined]) await read(await token({ iss }));
  await read(new UnsecuredJWT(claims()).encode());
  expect(issuer.timesRead).toBe(before);
});

it('without an issuer in the settings, a token is no credential', async () => {
  const bare = await startTestApi();
  try {
    expect(await outcome(bare.call('GET', '/keys', { key: await token() }))).toEqual([
      401,
      'invalid_api_key',
    ]);
  } finally {
    await bare.close();
  }
});
