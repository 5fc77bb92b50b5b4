import { readFileSync } from 'node:fs';
import { mintToken } from '@weighbridge/domain';
import { startTestIssuer, TEST_AUDIENCE, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';
import { SCOPES } from '../src/shared/scopes.ts';
import { fixtures } from './fixtures.ts';
import { startTestApi, type TestApi } from './testApi.ts';

/** Who gets in where, for every management operation of the document; a new one is covered by itself. */

const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
);
const managed = operations(document)
  .filter(([path]) => path.startsWith('/api/v1/'))
  .map(([path, method, operation]) => ({
    operation: operation.operationId,
    method: method.toUpperCase() as 'GET',
    path: path.replace('/api/v1', ''),
    scope: operation['x-required-scope'] ?? '',
    parameters: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name),
    filters: (operation.parameters ?? []).filter((one) => one.in === 'query').map(({ name }) => name),
    takesBody: operation.requestBody !== undefined,
  }));
type Managed = (typeof managed)[number];

let api: TestApi;
let issuer: TestIssuer;
const keys = { disabled: '', expired: '' };

beforeAll(async () => {
  issuer = await startTestIssuer();
  api = await startTestApi({
    OPENAI_API_KEY: 'sk-vendor',
    OIDC_ISSUER: issuer.url,
    OIDC_AUDIENCE: TEST_AUDIENCE,
    // A group for each scope.
    OIDC_SCOPE_MAP: JSON.stringify(Object.fromEntries(OF_TOKENS.map((scope) => [groupOf(scope), [scope]]))),
  });
  for (const id of ['ada', 'somebody-else']) {
    await api.call('PUT', `/principals/${id}`, { body: { policy_id: null } });
  }
  const fields = { scopes: [...SCOPES] };
  keys.disabled = (await api.issue({ ...fields, disabled: true })).key;
  const expires_at = new Date(api.now.getTime() + 1_000).toISOString();
  keys.expired = (await api.issue({ ...fields, expires_at })).key;
  api.now = new Date(api.now.getTime() + 2_000);
});
afterAll(async () => {
  await api.close();
  await issuer.close();
});

const OF_TOKENS = SCOPES.filter((scope) => scope !== 'inference');
const groupOf = (scope: string) => `may-${scope.toUpperCase()}`;

/** A token whose groups give these scopes. */
async function token(scopes: readonly string[], sub = 'ada'): Promise<string> {
  return await issuer.token(api.now, { sub, groups: scopes.map(groupOf) });
}

/** Calls an operation on resources of its own, or on those that are named. */
async function call(
  { operation, method, path, parameters, takesBody }: Managed,
  { key, ids, body }: { key?: string | null; ids?: string; body?: unknown } = {},
) {
  let filled = path;
  for (const name of parameters) {
    const value = ids ?? (await fixtures.parameter(api, name, operation));
    filled = filled.replace(`{${name}}`, encodeURIComponent(value));
  }
  const sent = takesBody ? (body ?? (await fixtures.body(api, operation, method))) : undefined;
  return await api.call(method, filled, {
    ...(key !== undefined && { key }),
    ...(sent !== undefined && { body: sent }),
  });
}

const refusalOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => [
  status,
  (body.error as { code?: string } | undefined)?.code,
];

describe.each(managed)('$operation ($method $path)', (operation) => {
  it('takes no one without a key', async () => {
    const answer = await call(operation, { key: null });
    expect(refusalOf(answer)).toEqual([401, 'missing_api_key']);
    expect(answer.headers['www-authenticate']).toBe('Bearer');
  });

  it('takes no bad key, be it mistyped or never issued', async () => {
    expect(refusalOf(await call(operation, { key: 'sk-svc-nonsense' }))).toEqual([401, 'invalid_api_key']);
    expect(refusalOf(await call(operation, { key: mintToken() }))).toEqual([401, 'invalid_api_key']);
  });

  it('takes no disabled and no expired key, whatever scopes they hold', async () => {
    expect(refusalOf(await call(operation, { key: keys.disabled }))).toEqual([401, 'key_disabled']);
    expect(refusalOf(await call(operation, { key: keys.expired }))).toEqual([401, 'key_expired']);
  });

  it(`takes no key without the scope ${operation.scope}, though it hold all others, and names it`, async () => {
    const { key } = await api.issue({ scopes: SCOPES.filter((scope) => scope !== operation.scope) });
    // Before the path and the body are looked at: who may not call learns nothing of what is there.
    for (const ids of [undefined, 'no-such-thing']) {
      const answer = await call(operation, { key, ...(ids && { ids }), body: { no_such_field: 1 } });
      expect(refusalOf(answer)).toEqual([403, 'insufficient_scope']);
      expect(answer.body.error).toMatchObject({ required_scope: operation.scope });
    }
  });

  it('takes no bad token, be it expired, for another service or unsigned', async () => {
    const claims = { groups: OF_TOKENS.map(groupOf) };
    const expired = await issuer.token(new Date(api.now.getTime() - 2 * 60 * 60_000), claims);
    expect(refusalOf(await call(operation, { key: expired }))).toEqual([401, 'token_expired']);
    const others = await issuer.token(api.now, { ...claims, aud: 'another' });
    expect(refusalOf(await call(operation, { key: others }))).toEqual([401, 'invalid_token']);
    const [header, payload] = others.split('.');
    expect(refusalOf(await call(operation, { key: `${header}.${payload}.` }))).toEqual([
      401,
      'invalid_token',
    ]);
  });

  it(`takes no token whose groups do not give ${operation.scope}, nor one of an unknown principal`, async () => {
    const key = await token(SCOPES.filter((scope) => scope !== operation.scope));
    for (const ids of [undefined, 'no-such-thing']) {
      const answer = await call(operation, { key, ...(ids && { ids }), body: { no_such_field: 1 } });
      expect(refusalOf(answer)).toEqual([403, 'insufficient_scope']);
      expect(answer.body.error).toMatchObject({ required_scope: operation.scope });
    }
    const strangers = await token(OF_TOKENS, 'a-stranger');
    expect(refusalOf(await call(operation, { key: strangers }))).toEqual([403, 'principal_unknown']);
  });

  it('lets an operator in by a token', async () => {
    const answer = await call(operation, { key: await token(OF_TOKENS) });
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  });

  if (operation.scope !== 'operator') {
    it("shows another principal's things to no token, and lets it have its own", async () => {
      const answer = await call(operation, { key: await token([operation.scope], 'somebody-else') });
      if (operation.parameters.length > 0) expect(answer.status).toBe(404);
      else expect(answer.status).toBeLessThan(300);
    });

    it("shows another principal's things to nobody, and lets it have its own", async () => {
      const { key } = await api.issue({ principal_id: 'somebody-else', scopes: [operation.scope] });
      const answer = await call(operation, { key });
      if (operation.parameters.length > 0) expect(answer.status).toBe(404);
      else expect(answer.status).toBeLessThan(300);
    });
  }

  it('lets the operator in', async () => {
    const answer = await call(operation);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  });

  if (operation.parameters.length > 0 && !fixtures.takesAnyId.has(operation.operation)) {
    it('tells what is not there before it looks at the body', async () => {
      for (const ids of ['no-such-thing', '%', 'a/b', 'x'.repeat(300)]) {
        expect((await call(operation, { ids, body: { no_such_field: 1 } })).status).toBe(404);
      }
    });
  }

  it('takes SQL in its path and in its query as a text like any other', async () => {
    const text = `x'"); DROP TABLE keys; --`;
    const queries = operation.filters.map((name) => `?${name}=${encodeURIComponent(text)}`);
    const named = operation.parameters.length > 0 && !fixtures.takesAnyId.has(operation.operation);
    for (const query of [...(named ? [''] : []), ...queries]) {
      const path = `${operation.path}${query}`;
      const answer = await call({ ...operation, path }, { ...(named && { ids: text }) });
      expect(answer.status, query).toBeLessThan(500);
    }
    expect((await api.call('GET', '/keys?page_size=1')).status).toBe(200);
  });

  it('refuses a query parameter that it does not know', async () => {
    const answer = await call({ ...operation, path: `${operation.path}?no_such_parameter=1` });
    expect(answer.status).toBe(400);
  });
});
