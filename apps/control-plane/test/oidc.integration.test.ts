import { createHmac } from 'node:crypto';
import { TEST_AUDIENCE } from '@weighbridge/testing';
import { exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { useOidcApi } from './oidcApi.ts';
import { outcome, startTestApi } from './testApi.ts';

const oidc = useOidcApi();
const { read, seconds, token } = oidc;

/** A token with any header and any signature, which a library would refuse to make. */
function handmade(header: object, claims: object, sign: (text: string) => string): string {
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const text = `${encode(header)}.${encode(claims)}`;
  return `${text}.${sign(text)}`;
}

const claims = () => ({
  iss: oidc.issuer.url,
  aud: TEST_AUDIENCE,
  sub: 'ada',
  groups: ['admins'],
  exp: seconds() + 60,
});

describe('a token is accepted', () => {
  it('if the issuer made it for this service', async () => {
    expect(await read(await token())).toEqual([200, undefined]);
    expect(await read(await token({ aud: ['somebody', TEST_AUDIENCE] }))).toEqual([200, undefined]);
    expect(await read(await token({ aud: 'another' }))).toEqual([200, undefined]);
  });

  it('if the clocks differ a little, either way', async () => {
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
  'without an audience': [() => token({ aud: undefined }), 'invalid_token', /has no aud/],
  'that is expired': [() => token({ exp: seconds() - 31 }), 'token_expired', /expired/],
  'that never expires': [() => token({ exp: undefined }), 'invalid_token', /has no exp/],
  'that is not valid yet': [() => token({ nbf: seconds() + 31 }), 'invalid_token', /not valid yet/],
  'without a subject': [() => token({ sub: undefined }), 'invalid_token', /has no sub/],
  'without a signature': [
    () => new UnsecuredJWT(claims()).encode(),
    'invalid_token',
    /its alg is not one of/,
  ],
  'with an unusual spelling of alg none': [
    async () => handmade({ alg: 'nOnE', kid: '1' }, claims(), () => ''),
    'invalid_token',
    /its alg is not one of/,
  ],
  'that is signed with the public key as an HMAC secret': [
    async () => {
      const secret = await exportSPKI(
        (await importJWK(oidc.issuer.publicKey, 'ES256', { extractable: true })) as never,
      );
      return handmade({ alg: 'HS256', kid: '1' }, claims(), (text) =>
        createHmac('sha256', secret).update(text).digest('base64url'),
      );
    },
    'invalid_token',
    /its alg is not one of/,
  ],
  'that another key with the same kid signed': [
    async () => {
      const { privateKey } = await generateKeyPair('ES256');
      const kid = oidc.issuer.publicKey.kid as string;
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
    () => oidc.issuer.token(oidc.api.now, {}, { kid: 'made up' }),
    'invalid_token',
    /does not have the key/,
  ],
  'that was changed after it was signed': [
    async () => {
      const [header, , signature] = (await token()).split('.');
      return `${header}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}.${signature}`;
    },
    'invalid_token',
    /its signature/,
  ],
  'that is not a JWT': [() => 'a.b.c', 'invalid_token', /cannot be decoded/],
};

it.each(Object.entries(REFUSED))('rejects a token %s', async (_which, [made, code, why]) => {
  const { status, body, headers } = await oidc.api.call('GET', '/keys', { key: await made() });
  expect([status, body.error]).toMatchObject([401, { type: 'authentication_error', code }]);
  expect((body.error as { message: string }).message).toMatch(why);
  expect(headers['www-authenticate']).toBe('Bearer');
});

it('a credential that does not look like a token is looked up as a key', async () => {
  for (const text of ['x', 'a.b', 'a.b.c.d', 'a.b.c.d.e', '..', 'sk-svc-nonsense']) {
    expect(await read(text)).toEqual([401, 'invalid_api_key']);
  }
});

it('after the issuer rotates its key, new tokens are accepted and old ones rejected', async () => {
  const before = await token();
  expect(await read(before)).toEqual([200, undefined]);
  await oidc.issuer.replaceKey();
  oidc.api.now = new Date(oidc.api.now.getTime() + 11_000);
  expect(await read(await token())).toEqual([200, undefined]);
  expect(await read(before)).toEqual([401, 'invalid_token']);
});

it('while the issuer is down, tokens get 503 once the cached keys are too old; keys still work', async () => {
  oidc.issuer.misbehave((_request, response) => response.destroy());
  expect(await read(await token())).toEqual([200, undefined]);
  oidc.api.now = new Date(oidc.api.now.getTime() + 2 * 60 * 60_000);
  const response = await oidc.api.call('GET', '/keys', { key: await token() });
  expect([response.status, response.body.error]).toMatchObject([503, { code: 'oidc_issuer_unavailable' }]);
  expect(response.headers['retry-after']).toBe('10');
  expect(JSON.stringify(response.body)).not.toContain(oidc.issuer.url);
  expect(await read(oidc.api.operatorKey)).toEqual([200, undefined]);
  // This is found without the issuer.
  expect(await read(await token({ iss: 'https://example.com' }))).toEqual([401, 'invalid_token']);

  oidc.issuer.misbehave((_request, response) => response.end('{"issuer": "https://example.com"}'));
  oidc.api.now = new Date(oidc.api.now.getTime() + 11_000);
  expect((await oidc.api.call('GET', '/keys', { key: await token() })).status).toBe(503);
  oidc.issuer.misbehave(undefined);
  oidc.api.now = new Date(oidc.api.now.getTime() + 11_000);
  expect(await read(await token())).toEqual([200, undefined]);
});

it('tokens that are rejected before their signature cause no request to the issuer', async () => {
  const before = oidc.issuer.timesRead;
  oidc.api.now = new Date(oidc.api.now.getTime() + 10 * 60_000);
  for (const iss of ['https://example.com', undefined]) await read(await token({ iss }));
  await read(new UnsecuredJWT(claims()).encode());
  expect(oidc.issuer.timesRead).toBe(before);
});

it('without an issuer in the settings, tokens are rejected', async () => {
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
