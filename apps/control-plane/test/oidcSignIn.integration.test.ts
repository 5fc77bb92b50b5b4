import { createLogger } from '@weighbridge/runtime';
import type { TestClaims } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../src/config.ts';
import { createOidc } from '../src/features/access/oidc/oidc.ts';
import { ABSOLUTE_MS, openSession } from '../src/features/console/sessions.service.ts';
import { loadPeppers } from '../src/features/keys/peppers.ts';
import { ADA, CLIENT, cookiesOf, START, useSignIn } from './signInApi.ts';
import { startTestApi } from './testApi.ts';

const given = useSignIn();
const { settings, comeBack, finish, signIn, read, pass } = given;
const SERVICE = {
  DATABASE_URL: 'postgres://localhost/weighbridge',
  CONTROL_PLANE_TOKEN: 'a token that the apps share',
};

describe('a sign-in by OIDC', () => {
  it('leads to the issuer and back to where the person was, with a session of its own', async () => {
    expect((await read('/session/options', '')).body).toEqual({ oidc: { name: 'Example login' } });
    const { began, callback, cookie } = await comeBack(ADA, '/console/usage?group=model');
    const [sent = ''] = cookiesOf(began);
    expect(sent).toMatch(
      /^weighbridge_sign_in=[\w-]+; Path=\/console\/sign-in\/oidc\/callback; HttpOnly; SameSite=Lax; Secure; Max-Age=600$/,
    );
    const { searchParams } = new URL(String(began.headers.location));
    const sealed = Buffer.from(cookie.split('=')[1] ?? '', 'base64url');
    expect(sealed.includes(searchParams.get('state') ?? '')).toBe(false);
    const ended = await finish(callback, cookie);
    expect([ended.status, ended.headers.location]).toEqual([303, '/console/usage?group=model']);
    expect([ended.headers['cache-control'], ended.headers['referrer-policy']]).toEqual([
      'no-store',
      'no-referrer',
    ]);
    const [removed, session = ''] = cookiesOf(ended);
    expect(removed).toMatch(/^weighbridge_sign_in=;.*Max-Age=0$/);
    expect(session).toMatch(
      /^weighbridge_session=[\w-]+; Path=\/api\/v1; HttpOnly; SameSite=Strict; Secure$/,
    );
    const who = await read('/whoami', session.split(';')[0] ?? '');
    expect(who.body).toMatchObject({
      principal_id: 'ada',
      credential: 'token',
      key_id: null,
      roles: ['member'],
    });
    expect(given.api.log()).not.toContain(callback.searchParams.get('code'));
    expect(given.provider.refusals).toEqual([]);
  });

  it('gives an operator, a lead and a member what their groups map to, and creates their principals', async () => {
    const roles = async (person: TestClaims) => (await read('/whoami', (await signIn(person)).session)).body;
    expect(await roles({ sub: 'olga', groups: ['admins'] })).toMatchObject({ roles: ['operator'] });
    expect(await roles({ sub: 'leo', groups: ['users', 'search-leads'] })).toMatchObject({ roles: ['lead'] });
    const member = await roles({ sub: 'mia', groups: ['users', 'search', 'unmapped'] });
    expect(member).toMatchObject({ principal_id: 'mia', roles: ['member'], teams: [{ name: 'search' }] });
    expect(member.scopes).not.toContain('operator');
  });

  it('is noted in the audit log with issuer and subject, as a token is', async () => {
    const { session } = await signIn({ sub: 'olga', groups: ['admins'] });
    const { csrf_token: csrf } = (await read('/session', session)).body;
    const made = await given.api.get('/api/v1/policies', {
      method: 'POST',
      headers: { cookie: session, 'x-csrf-token': csrf, 'content-type': 'application/json' },
      payload: JSON.stringify({ name: 'made by a session' }),
    });
    expect(made.status).toBe(201);
    const { data } = (await given.api.call('GET', `/audit?resource_id=${JSON.parse(made.text).id}`)).body;
    expect(data).toMatchObject([
      { actor_oidc_issuer: given.provider.url, actor_oidc_subject: 'olga', actor_key_id: null },
    ]);
  });

  it('takes the secret to the issuer as the issuer announces', async () => {
    given.provider.clientAuthentication = 'client_secret_basic';
    pass(6 * 60_000);
    expect((await signIn(ADA)).status).toBe(303);
    given.provider.clientAuthentication = 'client_secret_post';
    pass(6 * 60_000);
    expect((await signIn(ADA)).status).toBe(303);
  });

  it('goes on after the issuer has replaced its key', async () => {
    await given.provider.replaceKey();
    pass(11_000);
    expect((await signIn(ADA)).status).toBe(303);
  });
});

describe('a person', () => {
  const refusal = async (person: TestClaims) => {
    const { status, session, text } = await signIn(person);
    return [status, session, /<code>(?<code>\w+)/.exec(text)?.groups?.code];
  };

  it('is refused who is no principal here and maps to nothing, or to a team that does not exist', async () => {
    expect(await refusal({ sub: 'stranger', groups: ['users'] })).toEqual([403, '', 'principal_unknown']);
    expect(await refusal({ sub: 'stranger', groups: ['users', 'gone'] })).toEqual([403, '', 'team_unknown']);
    expect(await refusal({ sub: 'mia', groups: ['search'] })).toEqual([403, '', 'insufficient_scope']);
    expect(await refusal({ sub: '', groups: ['users'] })).toEqual([403, '', 'principal_unknown']);
    expect((await given.api.call('GET', '/principals?id_contains=stranger')).body.data ?? []).toEqual([]);
  });

  it('is refused, and its sessions end, once its principal is deactivated', async () => {
    const nina = { sub: 'nina', groups: ['users', 'search'] };
    const { session } = await signIn(nina);
    await given.api.call('PUT', '/principals/nina', { body: { active: false } });
    expect((await read('/whoami', session)).status).toBe(401);
    expect(await refusal(nina)).toEqual([403, '', 'principal_deactivated']);
    await given.api.call('PUT', '/principals/nina', { body: { active: true } });
    expect((await signIn(nina)).status).toBe(303);
  });

  it('loses at once what an operator takes from its principal, and keeps what the groups gave', async () => {
    const { session } = await signIn({ sub: 'liv', groups: ['users', 'search-leads'] });
    expect((await read('/whoami', session)).body.roles).toEqual(['lead']);
    const [team] = (await given.api.call('GET', '/teams?name_contains=search')).body.data as { id: string }[];
    await given.api.call('DELETE', `/teams/${team?.id}/members/liv`);
    expect((await read('/whoami', session)).body).toMatchObject({ roles: ['member'], teams: [] });
  });

  it('issues keys that expire when the session would at the latest', async () => {
    const { session } = await signIn(ADA);
    const { csrf_token: csrf } = (await read('/session', session)).body;
    const issue = async (fields: object) => {
      const headers = { cookie: session, 'x-csrf-token': csrf, 'content-type': 'application/json' };
      const payload = JSON.stringify({ name: 'mine', scopes: ['inference'], ...fields });
      const { status, text } = await given.api.get('/api/v1/keys', { method: 'POST', headers, payload });
      return [status, JSON.parse(text).expires_at];
    };
    const end = new Date(given.api.now.getTime() + ABSOLUTE_MS).toISOString();
    expect(await issue({})).toEqual([201, end]);
    expect((await issue({ expires_at: null }))[0]).toBe(403);
    expect((await issue({ scopes: ['operator'] }))[0]).toBe(403);
  });
});

describe('signing out', () => {
  const leave = async (cookie: string) => {
    const { csrf_token: csrf } = (await read('/session', cookie)).body;
    const headers = { cookie, 'x-csrf-token': csrf };
    const { status, text } = await given.api.get('/api/v1/session', { method: 'DELETE', headers });
    return { status, url: JSON.parse(text || '{}').sign_out_url as string | undefined };
  };

  it('ends the session here, and leads to where the issuer ends its own', async () => {
    const { session } = await signIn(ADA);
    const { status, url = '' } = await leave(session);
    expect([status, (await read('/whoami', session)).status]).toEqual([200, 401]);
    expect((await given.provider.authorize(url)).href).toBe(CLIENT.postLogoutRedirectUri);
    expect(given.provider.signedOut.at(-1)?.get('client_id')).toBe(CLIENT.id);
  });

  it('ends the session here while the issuer is down, or if it has no such page', async () => {
    const [one, other] = [(await signIn(ADA)).session, (await signIn(ADA)).session];
    given.provider.endsSessions = false;
    pass(6 * 60_000);
    expect(await leave(one)).toEqual({ status: 204, url: undefined });
    given.provider.endsSessions = true;
    given.provider.misbehave((_request, response) => response.destroy());
    pass(6 * 60_000);
    expect((await leave(other)).status).toBe(204);
    expect((await read('/whoami', other)).status).toBe(401);
    pass(11_000);
  });
});

it('begins no sign-in for another site, and goes on nowhere else', async () => {
  for (const site of ['cross-site', 'same-site']) {
    const { status, headers } = await given.api.get(START, { headers: { 'sec-fetch-site': site } });
    expect([status, headers.location, headers['set-cookie']]).toEqual([303, '/console/', undefined]);
  }
  for (const evil of ['https://evil.example/', '//evil.example', '/\\evil.example', '/api/v1/session']) {
    expect((await signIn(ADA, evil)).headers.location).toBe('/console/');
  }
});

it('ends sessions when the rules change under which they began', async () => {
  const { session } = await signIn({ sub: 'olga', groups: ['admins'] });
  const peppers = await loadPeppers(given.api.db, { current: undefined, others: [] }, given.api.now);
  const now = () => given.api.now;
  const logger = createLogger('test', { write: () => {} });
  const as = async (changes: Record<string, string>) => {
    const { oidc, publicUrl } = loadConfig({ ...SERVICE, ...settings(), ...changes });
    const deps = {
      db: given.api.db,
      now,
      peppers,
      keyUses: given.api.keyUses,
      ...createOidc(oidc, { now, logger, publicUrl }),
    };
    return await openSession(deps, session).then(
      ({ caller }) => caller.principalId,
      ({ code }) => code,
    );
  };
  expect(await as({})).toBe('olga');
  expect(await as({ OIDC_CLIENT_SECRET: 'another' })).toBe('olga');
  expect(await as({ OIDC_SCOPE_MAP: '{"others": ["operator"]}' })).toBe('session_ended');
  expect(await as({ OIDC_ROLE_MAP: '{}' })).toBe('session_ended');
  expect(await as({ OIDC_ISSUER: 'https://login.example.com' })).toBe('session_ended');
});

it('is not offered without a client in the settings', async () => {
  const bare = await startTestApi();
  try {
    expect(JSON.parse((await bare.get('/api/v1/session/options')).text)).toEqual({ oidc: null });
    // The page of the console, which knows no such path.
    expect((await bare.get(START)).headers['set-cookie']).toBeUndefined();
  } finally {
    await bare.close();
  }
});
