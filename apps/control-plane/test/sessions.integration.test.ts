import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ABSOLUTE_MS, IDLE_MS } from '../src/features/console/sessions.service.ts';
import { startTestApi, type TestApi } from './testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const JSON_TYPE = { 'content-type': 'application/json' };

async function signIn(key: string, headers: Record<string, string> = {}) {
  const response = await api.get('/api/v1/session', {
    method: 'POST',
    payload: JSON.stringify({ key }),
    headers: { ...JSON_TYPE, ...headers },
  });
  const setCookie = String(response.headers['set-cookie'] ?? '');
  const { csrf_token: csrf = '' } = response.status === 200 ? JSON.parse(response.text) : {};
  return { ...response, setCookie, cookie: setCookie.split(';')[0] ?? '', csrf: csrf as string };
}

const status = async (path: string, cookie: string) =>
  (await api.get(`/api/v1${path}`, { headers: { cookie } })).status;

async function write(cookie: string, csrf?: string) {
  const headers = { ...JSON_TYPE, cookie, ...(csrf !== undefined && { 'x-csrf-token': csrf }) };
  const payload = JSON.stringify({ name: 'by a session' });
  return (await api.get('/api/v1/keys', { method: 'POST', payload, headers })).status;
}

describe('a session', () => {
  it('is a cookie that scripts and other sites never get, and that contains no readable key', async () => {
    const { status: code, setCookie } = await signIn(api.operatorKey);
    expect(code).toBe(200);
    expect(setCookie).toMatch(/^weighbridge_session=[\w-]+; Path=\/api\/v1; HttpOnly; SameSite=Strict$/);
    const value = Buffer.from(
      setCookie.slice(setCookie.indexOf('=') + 1, setCookie.indexOf(';')),
      'base64url',
    );
    expect(value.includes(api.operatorKey)).toBe(false);
    expect((await signIn(api.operatorKey, { 'x-forwarded-proto': 'https' })).setCookie).toContain('; Secure');
  });

  it('reads with its cookie alone, and writes only with its own CSRF token', async () => {
    const [one, other] = [await signIn(api.operatorKey), await signIn(api.operatorKey)];
    expect(await status('/keys', one.cookie)).toBe(200);
    expect(await write(one.cookie)).toBe(403);
    expect(await write(one.cookie, '')).toBe(403);
    expect(await write(one.cookie, other.csrf)).toBe(403);
    expect(await write(one.cookie, one.csrf)).toBe(201);
    // Whoever sends a key has no session: its header counts alone.
    const headers = { cookie: one.cookie, authorization: 'Bearer sk-svc-wrong' };
    expect((await api.get('/api/v1/keys', { headers })).status).toBe(401);
  });

  it('ends an hour after its last use', async () => {
    const start = api.now;
    const { cookie } = await signIn(api.operatorKey);
    for (const part of [0.9, 1.8]) {
      api.now = new Date(start.getTime() + part * IDLE_MS);
      expect([part, await status('/whoami', cookie)]).toEqual([part, 200]);
    }
    api.now = new Date(start.getTime() + 2.9 * IDLE_MS);
    expect(await status('/whoami', cookie)).toBe(401);
  });

  it('ends at the latest after half a day, however it is used', async () => {
    const start = api.now;
    const { cookie } = await signIn(api.operatorKey);
    for (let at = IDLE_MS / 2; at < ABSOLUTE_MS; at += IDLE_MS / 2) {
      api.now = new Date(start.getTime() + at);
      expect([at, await status('/whoami', cookie)]).toEqual([at, 200]);
    }
    api.now = new Date(start.getTime() + ABSOLUTE_MS);
    expect(await status('/whoami', cookie)).toBe(401);
  });

  it('ends by signing out, for every copy of its cookie', async () => {
    const { cookie, csrf } = await signIn(api.operatorKey);
    const leave = (headers: Record<string, string>) =>
      api.get('/api/v1/session', { method: 'DELETE', headers: { cookie, ...headers } });
    expect((await leave({})).status).toBe(403);
    expect(await status('/whoami', cookie)).toBe(200);
    const left = await leave({ 'x-csrf-token': csrf });
    expect(left.status).toBe(204);
    expect(left.headers['set-cookie']).toContain('Max-Age=0');
    expect(await status('/whoami', cookie)).toBe(401);
  });

  it('ends with its key', async () => {
    const { id, key } = await api.issue({ scopes: ['usage:read'] });
    const { cookie } = await signIn(key);
    expect(await status('/whoami', cookie)).toBe(200);
    await api.call('DELETE', `/keys/${id}`);
    expect(await status('/whoami', cookie)).toBe(401);
  });

  it('ends with its key, however that ends, and with its principal', async () => {
    const ends: Record<string, (key: string) => Promise<unknown>> = {
      disabled: (id) => api.call('PATCH', `/keys/${id}`, { body: { disabled: true } }),
      rotated: (id) => api.call('POST', `/keys/${id}/rotate`, { body: {} }),
      expired: async (id) => {
        const soon = new Date(api.now.getTime() + 1_000).toISOString();
        await api.call('PATCH', `/keys/${id}`, { body: { expires_at: soon } });
        api.now = new Date(api.now.getTime() + 1_000);
      },
      deactivated: () => api.call('PUT', '/principals/ends', { body: { active: false } }),
    };
    for (const [how, end] of Object.entries(ends)) {
      const { id, key } = await api.issue({ principal_id: 'ends', scopes: ['usage:read', 'keys:write'] });
      const { cookie, csrf } = await signIn(key);
      expect([how, await status('/whoami', cookie)]).toEqual([how, 200]);
      await end(id);
      expect([how, await status('/whoami', cookie), await write(cookie, csrf)]).toEqual([how, 401, 401]);
      expect([how, await status('/session', cookie), (await signIn(key)).status]).toEqual([how, 401, 401]);
    }
  });

  it('is no way to the objects of others, by their address or by a filter', async () => {
    const other = await api.issue({ principal_id: 'other', scopes: ['usage:read'] });
    const own = await api.issue({ principal_id: 'own', scopes: ['usage:read', 'keys:read', 'keys:write'] });
    const { cookie, csrf } = await signIn(own.key);
    expect(await status(`/keys/${own.id}`, cookie)).toBe(200);
    for (const [path, code] of [
      [`/keys/${other.id}`, 404],
      ['/keys?principal_id=other', 403],
      ['/requests?principal_id=other', 403],
      ['/spend?principal_id=other', 403],
      ['/policies', 403],
      ['/audit', 403],
      ['/principals', 403],
    ] as const) {
      expect([path, await status(path, cookie)]).toEqual([path, code]);
    }
    const headers = { cookie, 'x-csrf-token': csrf };
    const revoked = await api.get(`/api/v1/keys/${other.id}`, { method: 'DELETE', headers });
    expect(revoked.status).toBe(404);
    const payload = JSON.stringify({ name: 'theirs', principal_id: 'other' });
    const issued = await api.get('/api/v1/keys', {
      method: 'POST',
      payload,
      headers: { ...headers, ...JSON_TYPE },
    });
    expect(issued.status).toBe(403);
  });

  it('makes no change by what a form of another site can send', async () => {
    const { cookie, csrf } = await signIn(api.operatorKey);
    const json = JSON.stringify({ name: 'by a form' });
    for (const [type, payload] of [
      ['application/x-www-form-urlencoded', `name=by+a+form&csrf_token=${csrf}&x-csrf-token=${csrf}`],
      ['text/plain', json],
      [
        'multipart/form-data; boundary=x',
        `--x\r\ncontent-disposition: form-data; name="name"\r\n\r\nby a form\r\n--x--`,
      ],
      ['application/json', JSON.stringify({ name: 'by a form', csrf_token: csrf })],
    ]) {
      const headers = { cookie, 'content-type': type as string, origin: 'https://evil.example' };
      const { status: code } = await api.get('/api/v1/policies', {
        method: 'POST',
        payload: payload as string,
        headers,
      });
      expect([type, code]).toEqual([type, 403]);
    }
    const byQuery = await api.get(`/api/v1/policies?x-csrf-token=${csrf}&csrf_token=${csrf}`, {
      method: 'POST',
      payload: json,
      headers: { ...JSON_TYPE, cookie },
    });
    expect(byQuery.status).toBe(403);
    const { data } = (await api.call('GET', '/policies?name_contains=by%20a%20form')).body;
    expect(data).toEqual([]);
  });

  it('is none if its cookie was made up, cut or changed', async () => {
    const { cookie } = await signIn(api.operatorKey);
    const at = cookie.length - 5;
    const changed = `${cookie.slice(0, at)}${cookie[at] === 'A' ? 'B' : 'A'}${cookie.slice(at + 1)}`;
    const wrong = [
      changed,
      cookie.slice(0, -4),
      'weighbridge_session=',
      'weighbridge_session=AAAA',
      'weighbridge_session=%00',
      // One of them may be from a neighbouring host.
      `${cookie}; ${(await signIn(api.operatorKey)).cookie}`,
      `${cookie}; weighbridge_session=`,
      cookie.replace('weighbridge_session', 'other_weighbridge_session'),
    ];
    for (const one of wrong) expect([one, await status('/whoami', one)]).toEqual([one, 401]);
  });
});

describe('a sign-in', () => {
  it('is refused to keys that are wrong, or that read nothing', async () => {
    expect((await signIn('sk-svc-wrong')).status).toBe(401);
    expect((await signIn('')).status).toBe(400);
    const { key } = await api.issue({ scopes: ['inference'] });
    expect((await signIn(key)).status).toBe(403);
  });

  it('is refused from another site, by any browser', async () => {
    for (const headers of [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
    ]) {
      expect([headers, (await signIn(api.operatorKey, headers)).status]).toEqual([headers, 403]);
    }
    expect((await signIn(api.operatorKey, { 'sec-fetch-site': 'same-origin' })).status).toBe(200);
  });
});

it('applies a plan with the rights of its session, which must repeat its CSRF token', async () => {
  const operator = await signIn(api.operatorKey);
  const check = async (cookie: string, csrf: string) => {
    const calls = [
      { method: 'POST', path: '/api/v1/policies', body: { name: 'planned' } },
      { method: 'POST', path: '/api/v1/policies', body: { name: '' } },
    ];
    const { status: code, text } = await api.get('/api/v1/apply', {
      method: 'POST',
      payload: JSON.stringify({ calls, dry_run: true }),
      headers: { ...JSON_TYPE, cookie, 'x-csrf-token': csrf },
    });
    return [code, JSON.parse(text)];
  };
  const [code, checked] = await check(operator.cookie, operator.csrf);
  expect([code, checked]).toMatchObject([200, { calls: 2, errors: [{ index: 1 }] }]);
  expect(checked.errors).toHaveLength(1);
  expect((await check(operator.cookie, ''))[0]).toBe(403);
  const { key } = await api.issue({ principal_id: 'planner', scopes: ['usage:read'] });
  const person = await signIn(key);
  expect((await check(person.cookie, person.csrf))[0]).toBe(403);
  const { data } = (await api.call('GET', '/policies?name_contains=planned')).body;
  expect(data).toEqual([]);
});

describe('a sign-in link', () => {
  const take = (path: string, headers: Record<string, string> = {}) => api.get(path, { headers });

  it('opens a session once, and leads to the console', async () => {
    const link = api.signInLinks.create(api.operatorKey);
    const { status: code, headers } = await take(link);
    expect([code, headers.location, headers['cache-control']]).toEqual([303, '/console/', 'no-store']);
    const cookie = String(headers['set-cookie']).split(';')[0] ?? '';
    expect(await status('/whoami', cookie)).toBe(200);
    // A cookie that someone put there before is replaced.
    const again = await take(link, { cookie });
    expect([again.status, again.headers['set-cookie']]).toEqual([303, undefined]);
    expect(api.log()).not.toContain(link.split('=')[1]);
  });

  it('ends after 15 minutes, and with its key', async () => {
    const start = api.now;
    const late = api.signInLinks.create(api.operatorKey);
    const { id, key } = await api.issue({ scopes: ['usage:read'] });
    const withoutKey = api.signInLinks.create(key);
    await api.call('DELETE', `/keys/${id}`);
    expect((await take(withoutKey)).status).toBe(401);
    api.now = new Date(start.getTime() + 15 * 60_000);
    expect((await take(late)).headers['set-cookie']).toBeUndefined();
    api.now = start;
  });

  it('is refused to whoever is not a browser of this machine, and stays good for who is', async () => {
    const link = api.signInLinks.create(api.operatorKey);
    for (const headers of [
      { host: 'weighbridge.example' },
      { host: '127.0.0.1.evil.example' },
      { 'x-forwarded-for': '127.0.0.1' },
      { forwarded: 'for=127.0.0.1' },
    ]) {
      expect([headers, (await take(link, headers as Record<string, string>)).status]).toEqual([headers, 403]);
    }
    expect((await take('/console/sign-in')).headers.location).toBe('/console/?sign_in=link_ended');
    expect((await take(`${link}x`)).headers['set-cookie']).toBeUndefined();
    expect((await take(`${link}&return_to=https://evil.example`)).status).toBe(400);
    expect((await take(link)).headers['set-cookie']).toBeDefined();
  });
});

describe('a playground key', () => {
  const open = (key: string) => api.call('POST', '/keys/playground', { key });
  const isLive = async (id: unknown) =>
    (await api.call('GET', `/keys/${String(id)}`)).body.revoked_at === null;

  it('only infers, for 15 minutes or less, where the own requests of its maker count', async () => {
    const policy = (await api.call('POST', '/policies', { body: { name: 'mine', counter_scope: 'key' } }))
      .body;
    const fields = { principal_id: 'pia', policy_id: policy.id, scopes: ['usage:read'] };
    const own = await api.issue(fields);
    const { status: code, body } = await open(own.key);
    expect([code, body.principal_id, body.scopes, body.policy_id]).toEqual([
      201,
      'pia',
      ['inference'],
      policy.id,
    ]);
    expect(body.expires_at).toBe(new Date(api.now.getTime() + 15 * 60_000).toISOString());
    const [counter, mine] = [await api.resolve(String(body.key)), await api.resolve(own.key)];
    expect(counter.policies.length).toBeGreaterThan(0);
    expect(counter.policies).toEqual(mine.policies);
    // It opens nothing further.
    expect((await open(String(body.key))).status).toBe(403);
    const soon = new Date(api.now.getTime() + 60_000).toISOString();
    const short = await api.issue({ ...fields, expires_at: soon });
    expect((await open(short.key)).body.expires_at).toBe(soon);
  });

  it('of a principal are at most five, and none of them is reported as expiring', async () => {
    const { key } = await api.issue({ principal_id: 'quin', scopes: ['usage:read'] });
    const ids: unknown[] = [];
    for (let n = 0; n < 6; n++) ids.push((await open(key)).body.id);
    const live = await Promise.all(ids.map(isLive));
    expect(live.filter(Boolean)).toHaveLength(5);
    expect((await api.call('GET', '/summary', { key })).body.attention).toEqual([]);
  });

  it('ends when its session signs out, and those of other sessions do not', async () => {
    const make = async ({ cookie, csrf }: { cookie: string; csrf: string }, headers = {}) =>
      await api.get('/api/v1/keys/playground', {
        method: 'POST',
        headers: { cookie, 'x-csrf-token': csrf, ...headers },
      });
    const { key } = await api.issue({ principal_id: 'rex', scopes: ['usage:read'] });
    const [one, other] = [await signIn(key), await signIn(key)];
    expect((await make({ ...one, csrf: '' })).status).toBe(403);
    const [ending, staying] = [await make(one), await make(other)].map(({ text }) => JSON.parse(text));
    await api.get('/api/v1/session', {
      method: 'DELETE',
      headers: { cookie: one.cookie, 'x-csrf-token': one.csrf },
    });
    expect([await isLive(ending.id), await isLive(staying.id)]).toEqual([false, true]);
    expect((await api.call('GET', `/audit?resource_id=${ending.id}`)).body.data).toMatchObject([
      { action: 'key.revoked', actor_principal_id: 'rex' },
      { action: 'key.created' },
    ]);
  });
});

describe('the files of the console', () => {
  it('are served with a policy without exceptions, and / leads to them', async () => {
    const root = await api.get('/');
    expect([root.status, root.headers.location]).toEqual([302, '/console/']);
    const page = await api.get('/console/requests/req_1');
    expect([page.status, page.type]).toEqual([200, 'text/html; charset=utf-8']);
    const policy = String(page.headers['content-security-policy']);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|https?:|\*|data:/);
    expect(page.text).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/);
    const script = /src="(?<path>[^"]+)"/.exec(page.text)?.groups?.path ?? '';
    const asset = await api.get(script);
    expect([asset.status, asset.headers['cache-control']]).toEqual([
      200,
      'public, max-age=31536000, immutable',
    ]);
    expect((await api.get('/console/assets/none.js')).status).toBe(404);
    expect((await api.get('/console/assets/..%2findex.html')).status).toBe(404);
    expect((await api.get('/console', { method: 'POST' })).status).toBe(405);
  });
});
