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
