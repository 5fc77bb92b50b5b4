import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';
import { CHANGING_BODIES, price } from './changingBodies.ts';
import { fixtures } from './fixtures.ts';
import { startTestApi, type TestApi } from './testApi.ts';

/** No change is lost: every operation that changes a resource with an ETag, also a new one, can depend on it. */

const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
);
const all = operations(document).filter(([path]) => path.startsWith('/api/v1/'));
const takes = (header: string) =>
  all
    .filter(([, , { parameters = [] }]) => parameters.some(({ name }) => name === header))
    .map(([path, method, { operationId }]) => ({
      path: path.replace('/api/v1', ''),
      method: method.toUpperCase() as 'GET' | 'PATCH' | 'PUT' | 'POST' | 'DELETE',
      operation: operationId,
    }));
const conditional = takes('if-match');
type Conditional = (typeof conditional)[number];

/** Has no operation that reads it alone: its ETag is its version. */
const BY_VERSION = new Set(['putConnectorPrice', 'deleteConnectorPrice']);

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({
    OPENAI_API_KEY: 'sk-vendor',
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
  });
});
afterAll(() => api.close());

async function pathOf({ path, operation }: Conditional): Promise<string> {
  let filled = path;
  for (const [placeholder, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
    const value = await fixtures.parameter(api, name, operation);
    filled = filled.replace(placeholder, encodeURIComponent(value));
  }
  if (operation === 'deleteCatalogPrice') await api.call('POST', filled, { body: price(1) });
  if (operation === 'putConnectorPrice') await api.call('PUT', filled, { body: price(1) });
  if (operation === 'unfreezeTeam') await api.call('POST', filled.replace('/un', '/'));
  return filled;
}

/** The resource of an operation's path, and its ETag. */
async function current({ operation }: Conditional, path: string) {
  if (BY_VERSION.has(operation)) return { path: undefined, etag: '"1"' };
  const own = path.replace(/\/(rotate|prices|freeze|unfreeze)$/, '');
  const { status, headers } = await api.call('GET', own);
  expect(status).toBe(200);
  return { path: own, etag: headers.etag as string };
}

const send = async (operation: Conditional, path: string, ifMatch: string, n = 0) => {
  const body = operation.method === 'DELETE' ? undefined : CHANGING_BODIES[operation.operation]?.(n);
  return await api.call(operation.method, path, {
    headers: { 'if-match': ifMatch },
    ...(body && { body }),
  });
};

it('covers every operation that changes a resource with an ETag', () => {
  const withEtag = new Set(
    all
      .filter(([, method, { responses }]) => {
        const { headers } = (responses[200] ?? {}) as { headers?: object };
        return method === 'get' && headers && 'etag' in headers && !('304' in responses);
      })
      .map(([path]) => path),
  );
  expect(withEtag.size).toBe(10);
  const missing = all
    .filter(([path, method]) => withEtag.has(path) && method !== 'get')
    .filter(([, , { operationId }]) => !conditional.some(({ operation }) => operation === operationId))
    .map(([, , { operationId }]) => operationId);
  expect(missing).toEqual([]);
  expect(conditional.length).toBeGreaterThan(25);
  const withBody = conditional.filter(({ method }) => method !== 'DELETE').map(({ operation }) => operation);
  expect(withBody.filter((name) => !CHANGING_BODIES[name] && !/freezeTeam/i.test(name))).toEqual([]);
});

describe.each(conditional)('$operation', (operation) => {
  it('is refused with 412 and what there is, if it names another state', async () => {
    const path = await pathOf(operation);
    const before = await current(operation, path);
    for (const stale of ['"stale"', `W/${before.etag}`, '"a", "b"', 'W/"a,b", "c"', '""']) {
      const { status, body, headers } = await send(operation, path, stale);
      expect([stale, status]).toEqual([stale, 412]);
      expect(body.error).toMatchObject({ code: 'precondition_failed', param: 'if-match' });
      expect((body.error as { current: object }).current).toEqual(expect.any(Object));
      expect(headers.etag).toBe(before.etag);
    }
    for (const malformed of ['', 'stale', '"a', '"a" "b"', '"a,b', '"a",', '"a",,"b"']) {
      expect((await send(operation, path, malformed)).status).toBe(400);
    }
    expect((await current(operation, path)).etag).toBe(before.etag);
  });

  it('is made once, if several who read the same state make it at once', async () => {
    const path = await pathOf(operation);
    const { etag } = await current(operation, path);
    const calls = Array.from({ length: 4 }, (_, n) => send(operation, path, `"other", ${etag}`, n));
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    const [done, ...others] = statuses.sort();
    expect(done === 200 || done === 201).toBe(true);
    // What was deleted is not there, also for those who waited.
    for (const status of others) expect([412, 404]).toContain(status);
    expect(others).toHaveLength(3);
  });

  it('answers with the ETag of what it made, so that changes can follow each other', async () => {
    if (operation.method === 'DELETE' || BY_VERSION.has(operation.operation)) return;
    const path = await pathOf(operation);
    const { headers, status } = await send(operation, path, '*');
    expect(status).toBeLessThan(300);
    const { etag } = await current(operation, path);
    if (operation.operation !== 'createCatalogPrice') expect(headers.etag).toBe(etag);
    expect((await send(operation, path, etag, 1)).status).toBeLessThan(300);
  });
});

describe('If-None-Match: *', () => {
  const creating = takes('if-none-match').filter(({ method }) => method !== 'GET');

  it('creates only what does not exist', async () => {
    const headers = { 'if-none-match': '*' };
    expect(creating.map(({ operation }) => operation).sort()).toEqual([
      // By its name: policies.integration.test.
      'createPolicy',
      'putCatalogModel',
      'putConnectorPrice',
      'putPrincipal',
    ]);
    for (const path of ['/principals/brand-new', '/catalog/models/mock%2Fbrand-new']) {
      const body = path.includes('models') ? { context_window: 1_000 } : { role: 'finance' };
      const other = path.includes('models') ? { context_window: 9 } : { role: 'auditor' };
      const statuses = await Promise.all(
        [body, other].map(async (one) => (await api.call('PUT', path, { body: one, headers })).status),
      );
      expect(statuses.filter((status) => status === 412)).toHaveLength(1);
      expect((await api.call('PUT', path, { body, headers })).status).toBe(412);
    }
  });

  it('can be nothing else', async () => {
    const headers = { 'if-none-match': '"a"' };
    const { status, body } = await api.call('PUT', '/principals/ada', { body: {}, headers });
    expect([status, (body.error as { param: string }).param]).toEqual([400, 'if-none-match']);
  });
});

describe('If-None-Match of a read', () => {
  const get = (path: string, etag?: string) =>
    api.get(`/api/v1${path}`, {
      key: api.operatorKey,
      headers: etag === undefined ? {} : { 'if-none-match': etag },
    });

  it('is answered 304 without a body until the answer is another one', async () => {
    const { headers, status } = await get('/policies');
    const etag = String(headers.etag);
    expect([status, etag]).toEqual([200, expect.stringMatching(/^W\/"[\w-]{27}"$/)]);
    for (const named of [etag, `"other", ${etag}`, etag.slice(2), '*']) {
      const again = await get('/policies', named);
      expect([named, again.status, again.text]).toEqual([named, 304, '']);
      expect(again.headers).toMatchObject({ etag, 'cache-control': 'no-store' });
      expect(again.headers['content-type']).toBeUndefined();
    }
    for (const named of ['"other"', '', ',', `${etag}x`])
      expect((await get('/policies', named)).status).toBe(200);
    await api.call('POST', '/policies', { body: { name: 'changes the list' } });
    const changed = await get('/policies', etag);
    expect([changed.status, changed.headers.etag === etag]).toEqual([200, false]);
  });

  it('says nothing to whoever may not read', async () => {
    const { key } = await api.issue({ scopes: ['inference'] });
    expect((await api.get('/api/v1/policies', { key, headers: { 'if-none-match': '*' } })).status).toBe(403);
    expect((await api.get('/api/v1/policies', { headers: { 'if-none-match': '*' } })).status).toBe(401);
    expect((await get('/policies/pol_unknown', '*')).status).toBe(404);
  });

  it('is never 304 for a resource, whose ETag is of what may be changed alone', async () => {
    const { id } = await api.issue();
    const { headers } = await get(`/keys/${id}`);
    expect((await get(`/keys/${id}`, String(headers.etag))).status).toBe(200);
  });

  const lists = takes('if-none-match').filter(({ method, path }) => method === 'GET' && !path.includes('{'));

  it.each(lists)('has an ETag to name at $path', async ({ path }) => {
    const { status, headers } = await get(path);
    expect([status, headers.etag]).toEqual([200, expect.stringMatching(/^W\//)]);
  });
});

it('refuses a condition where it would be ignored', async () => {
  for (const header of ['if-match', 'if-none-match']) {
    const { status, body } = await api.call('POST', '/profiles', {
      body: { name: 'unconditional', strategy: 'ordered', targets: [{ model: 'mock/echo' }] },
      headers: { [header]: '*' },
    });
    expect([status, (body.error as { param: string }).param]).toEqual([400, header]);
  }
});

it('does not change an ETag by use', async () => {
  const { id } = await api.issue();
  const etagOf = async () => (await api.call('GET', `/keys/${id}`)).headers.etag;
  const before = await etagOf();
  await api.db.updateTable('keys').set({ last_used_at: new Date() }).where('id', '=', id).execute();
  expect(await etagOf()).toBe(before);
});

// The secret of a webhook is not what a plan sets.
const plannable = conditional.filter(({ operation }) => operation !== 'rotateWebhook');

describe.each(plannable)('$operation in a plan', (operation) => {
  it('is made if its resource is as it was shown, and refused for each value of its ETag that is another', async () => {
    const path = await pathOf(operation);
    const before = await current(operation, path);
    const shown = before.path ? (await api.call('GET', before.path)).body : { version: 1 };
    const body = operation.method === 'DELETE' ? undefined : CHANGING_BODIES[operation.operation]?.(0);
    const apply = async (expects: object, dry_run: boolean) => {
      const call = { method: operation.method, path: `/api/v1${path}`, expects, ...(body && { body }) };
      return await api.call('POST', '/apply', { body: { calls: [call], dry_run } });
    };
    const refused: string[] = [];
    for (const name of Object.keys(shown)) {
      const { errors } = (await apply({ ...shown, [name]: ['another'] }, true)).body as {
        errors: { status: number }[];
      };
      if (errors.length > 0) refused.push(`${name} ${errors[0]?.status}`);
    }
    // What a change of each leaves behind in any case.
    const [version] = ['version', 'updated_at', 'role'].filter((name) => name in shown);
    expect(refused).toContain(`${version} 412`);
    expect(refused.filter((one) => !one.endsWith(' 412'))).toEqual([]);
    expect((await current(operation, path)).etag).toBe(before.etag);
    expect(await apply(shown, false)).toMatchObject({ status: 200 });
    const again = await apply(shown, false);
    expect([404, 412, 422], JSON.stringify(again.body)).toContain(again.status);
  });
});
