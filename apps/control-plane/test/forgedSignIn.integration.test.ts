import { createHmac } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { TEST_AUDIENCE, type TestClaims, type TestProvider } from '@weighbridge/testing';
import { exportSPKI, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose';
import { describe, expect, it } from 'vitest';
import { SIGN_IN_MS } from '../src/features/console/signInCookie.ts';
import { ADA, type Answer, CLIENT, cookieOf, pathOf, START, useSignIn } from './signInApi.ts';
import { startTestApi } from './testApi.ts';

const given = useSignIn();
const { settings, comeBack, finish, signIn, pass } = given;

const sign =
  (changes: TestClaims, header?: { kid?: string }): Forgery =>
  async ({ claims, sign: honest }) =>
    await honest(given.api.now, { ...claims, ...changes }, header);
type Forgery = Exclude<Parameters<TestProvider['forge']>[0], undefined>;
const seconds = () => Math.floor(given.api.now.getTime() / 1_000);
const full = (claims: TestClaims) => ({
  iss: given.provider.url,
  iat: seconds(),
  exp: seconds() + 60,
  ...claims,
});

const FORGED: Record<string, Forgery> = {
  'of another issuer': sign({ iss: 'https://evil.example' }),
  'for another client': sign({ aud: 'another-client' }),
  'for bearers of this service': sign({ aud: TEST_AUDIENCE }),
  'for two clients, of which the other is authorized': sign({ aud: [CLIENT.id, 'other'], azp: 'other' }),
  'for another sign-in': sign({ nonce: 'n'.repeat(43) }),
  'without a nonce': sign({ nonce: undefined }),
  'that has expired': async (answer) => await sign({ exp: seconds() - 31 })(answer),
  'that never expires': sign({ exp: undefined }),
  'that is not valid yet': async (answer) => await sign({ nbf: seconds() + 31 })(answer),
  'without a subject': sign({ sub: undefined }),
  'with an endless subject': sign({ sub: 'a'.repeat(256) }),
  'of a key that the issuer does not have': sign({}, { kid: 'made up' }),
  'without a signature': async ({ claims }) => new UnsecuredJWT(full(claims)).encode(),
  'that another key with the same kid signed': async ({ claims }) => {
    const { privateKey } = await generateKeyPair('ES256');
    const kid = given.provider.publicKey.kid as string;
    return await new SignJWT(full(claims)).setProtectedHeader({ alg: 'ES256', kid }).sign(privateKey);
  },
  'that is signed with the public key as an HMAC secret': async ({ claims }) => {
    const key = await importJWK(given.provider.publicKey, 'ES256', { extractable: true });
    const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
    const text = `${encode({ alg: 'HS256', kid: given.provider.publicKey.kid })}.${encode(full(claims))}`;
    const secret = await exportSPKI(key as never);
    return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`;
  },
  'that is signed with the client secret': async ({ claims }) =>
    await new SignJWT(full(claims))
      .setProtectedHeader({ alg: 'HS256' })
      .sign(Buffer.from(CLIENT.secret.padEnd(32))),
  'that was changed after it was signed': async ({ claims, sign: honest }) => {
    const [header, , signature] = (await honest(given.api.now, claims)).split('.');
    const changed = Buffer.from(JSON.stringify({ ...full(claims), groups: ['admins'] })).toString(
      'base64url',
    );
    return `${header}.${changed}.${signature}`;
  },
  'that is no token': async () => '<script>alert(1)</script>',
};

it.each(Object.entries(FORGED))('refuses an ID token %s', async (_which, make) => {
  given.provider.forge(make);
  const { status, text, session, type } = await signIn(ADA);
  expect([type, session]).toEqual(['text/html; charset=utf-8', '']);
  expect([401, 403, 502]).toContain(status);
  expect(text).toContain('Back to the sign-in page');
  expect(text).not.toContain('<script');
  // The provider itself found nothing wrong.
  expect(given.provider.refusals).toEqual([]);
});

describe('an answer of the issuer', () => {
  const refused = async (answer: Promise<Answer>) => {
    const refusal = await answer;
    expect([refusal.status, cookieOf(refusal, 'weighbridge_session')]).toEqual([401, undefined]);
    return refusal.text;
  };

  it('counts once, by whomever it is repeated', async () => {
    const { callback, cookie } = await comeBack(ADA);
    const both = await Promise.all([finish(callback, cookie), finish(callback, cookie)]);
    expect(both.map(({ status }) => status).sort()).toEqual([303, 401]);
    expect(await refused(finish(callback, cookie))).toContain('was answered before');
    expect(given.provider.codes.filter((code) => code === callback.searchParams.get('code'))).toHaveLength(1);
  });

  it('is refused to a browser that did not begin the sign-in', async () => {
    const [attacker, victim] = [await comeBack({ sub: 'mallory', groups: ['users'] }), await comeBack(ADA)];
    const before = given.provider.codes.length;
    expect(await refused(finish(attacker.callback, ''))).toContain('did not begin this sign-in');
    await refused(finish(attacker.callback, victim.cookie));
    // A neighbouring host may add a cookie of its own.
    await refused(finish(attacker.callback, `${attacker.cookie}; ${victim.cookie}`));
    const { session } = await signIn(ADA);
    await refused(finish(attacker.callback, session.replace('weighbridge_session', 'weighbridge_sign_in')));
    expect(given.provider.codes.length).toBe(before + 1);
    // What the victim began still counts.
    expect((await finish(victim.callback, victim.cookie)).status).toBe(303);
  });

  it('is refused with another state, an earlier code, or none', async () => {
    const change = async (name: string, value?: string) => {
      const { callback, cookie } = await comeBack(ADA);
      if (value === undefined) callback.searchParams.delete(name);
      else callback.searchParams.set(name, value);
      return finish(callback, cookie);
    };
    await refused(change('state'));
    await refused(change('state', 'x'.repeat(43)));
    await refused(change('iss', 'https://evil.example'));
    await refused(change('iss'));
    await refused(change('code', 'made-up'));
    await refused(change('code'));
    const used = await comeBack(ADA);
    await finish(used.callback, used.cookie);
    await refused(change('code', used.callback.searchParams.get('code') ?? ''));
    const twice = await comeBack(ADA);
    await refused(finish(`${pathOf(twice.callback)}&code=other`, twice.cookie));
    // The code of one sign-in in the answer to another: PKCE tells them apart.
    const [one, other] = [await comeBack(ADA), await comeBack(ADA)];
    one.callback.searchParams.set('code', other.callback.searchParams.get('code') ?? '');
    await refused(finish(one.callback, one.cookie));
    expect(given.provider.refusals).toContain('wrong code_verifier');
  });

  it('is refused after ten minutes', async () => {
    const { callback, cookie } = await comeBack(ADA);
    pass(SIGN_IN_MS);
    await refused(finish(callback, cookie));
  });

  it('shows an error as text, with what to do next', async () => {
    const { callback, cookie } = await comeBack(ADA);
    const state = callback.searchParams.get('state') ?? '';
    const said = new URLSearchParams({
      error: 'access_denied',
      error_description: `<img src=x onerror="alert(1)">\u202Eevil\r\n'quoted' & more`,
      iss: given.provider.url,
      state,
    });
    const answer = await finish(`${callback.pathname}?${said}`, cookie);
    expect(answer.status).toBe(403);
    expect(answer.text).not.toMatch(/<img|\u202E|<script/);
    expect(answer.text).toContain('&#60;img src=x onerror=&#34;alert(1)&#34;&#62;');
    expect(answer.text).toContain('ask whoever runs it to give you access');
    expect(answer.headers['content-security-policy']).toMatch(/^default-src 'none'.*frame-ancestors 'none'$/);
    // Without the state of this browser, a stranger's text is not shown.
    said.set('state', 'other');
    expect(await refused(finish(`${callback.pathname}?${said}`, cookie))).not.toContain('quoted');
  });
});

describe('an issuer that fails', () => {
  const page = async (path = START) => {
    const { status, text, type } = await given.api.get(path);
    return [status, type, /<p>(?<message>[^<]+)/.exec(text)?.groups?.message];
  };
  const down = [503, 'text/html; charset=utf-8', expect.stringContaining('is unavailable')];

  it('stops neither the service nor sessions, and works again as soon as it answers', async () => {
    const { session } = await signIn(ADA);
    const dead = await startTestApi({ ...settings(), OIDC_ISSUER: 'http://127.0.0.1:1' });
    try {
      expect((await dead.call('GET', '/keys')).status).toBe(200);
      expect((await dead.get(START)).status).toBe(503);
    } finally {
      await dead.close();
    }
    for (const listener of [
      (_request, response) => response.destroy(),
      (_request, response) => response.end('{'),
      (_request, response) => response.end(' '.repeat(300 * 1_024)),
      (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end(),
      (_request, response) =>
        response.end(
          JSON.stringify({ issuer: given.provider.url, token_endpoint: 'https://169.254.169.254/token' }),
        ),
    ] as RequestListener[]) {
      given.provider.misbehave(listener);
      pass(61 * 60_000);
      expect(await page()).toEqual(down);
    }
    given.provider.misbehave(undefined);
    pass(11_000);
    expect((await given.api.get(START)).status).toBe(303);
    expect((await signIn(ADA)).status).toBe(303);
    expect(session).not.toBe('');
  });

  it.each<[string, RequestListener]>([
    [
      'with HTML',
      (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<b>hi</b>'),
    ],
    ['with an endless body', (_request, response) => response.end('x'.repeat(100 * 1_024))],
    ['with a redirect', (_request, response) => response.writeHead(307, { location: '/elsewhere' }).end()],
    [
      'without an ID token',
      (_request, response) =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"access_token": "a", "token_type": "Bearer"}'),
    ],
    ['by hanging up', (_request, response) => response.destroy()],
    ['with 500', (_request, response) => response.writeHead(500).end('oops')],
  ])('answers to a code %s: no session, and a next step', async (_how, listener) => {
    const { callback, cookie } = await comeBack(ADA);
    given.provider.misbehave(listener);
    const { status, text, headers } = await finish(callback, cookie);
    expect([401, 502]).toContain(status);
    expect([headers['set-cookie']].flat().join()).not.toContain('weighbridge_session');
    expect(text).toMatch(/Try again|Sign in again/);
    expect(text).not.toContain('<b>');
  });
});
