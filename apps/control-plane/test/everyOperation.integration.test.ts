import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mintToken } from '@weighbridge/domain';
import { expectTable, startTestIssuer, TEST_AUDIENCE, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';
import { SCOPES } from '../src/shared/scopes.ts';
import { fixtures } from './fixtures.ts';
import { startTestApi, type TestApi } from './testApi.ts';

/** Authentication and authorization of every management operation in the document, including new ones. */

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
const keys = { disabled: '', expired: '', inGrace: '' };

beforeAll(async () => {
  issuer = await startTestIssuer();
  api = await startTestApi({
    OPENAI_API_KEY: 'sk-vendor',
    // Nothing listens there: a refresh says so.
    CATALOG_FEED_URL: 'http://127.0.0.1:1/prices.json',
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
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
  const rotated = await api.issue(fields);
  keys.inGrace = rotated.key;
  await api.call('POST', `/keys/${rotated.id}/rotate`, { body: { grace_seconds: 3_600 } });
  const expires_at = new Date(api.now.getTime() + 1_000).toISOString();
  keys.expired = (await api.issue({ ...fields, expires_at })).key;
  api.now = new Date(api.now.getTime() + 2_000);
  await makeTeams();
});

/** Everyone of them has a key with all scopes, so that only its role decides. */
const HOLDERS = ['member', 'lead', 'otherLead', 'finance', 'auditor', 'operator'] as const;
type Holder = (typeof HOLDERS)[number];
const held: Partial<Record<Holder, string>> = {};

/** The owner of the fixtures is in a team with a member and a lead. Another team has a lead too. */
async function makeTeams(): Promise<void> {
  const put = async (path: string, body: object) =>
    expect((await api.call('PUT', path, { body })).status).toBe(200);
  for (const name of ['team', 'otherTeam']) {
    const { id } = (await api.call('POST', '/teams', { body: { name } })).body;
    await put(`/teams/${id}/members/${name === 'team' ? 'lead' : 'otherLead'}`, { role: 'lead' });
    if (name !== 'team') continue;
    for (const member of ['member', 'an-owner'])
      await put(`/teams/${id}/members/${member}`, { role: 'member' });
  }
  for (const role of ['finance', 'auditor', 'operator']) await put(`/principals/the-${role}`, { role });
  for (const holder of HOLDERS) {
    const principal_id = ['finance', 'auditor', 'operator'].includes(holder) ? `the-${holder}` : holder;
    held[holder] = (await api.issue({ principal_id, scopes: [...SCOPES] })).key;
  }
}

/** What an operation answers to each of them on an object of the team's member: the status, and the code of an error. */
function expectedFor(holder: Holder, { operation, method, scope, parameters }: Managed): unknown {
  const reads = method === 'GET';
  if (holder === 'operator') return 'done';
  if (scope === 'operator') {
    return holder === 'auditor' && reads ? 'done' : [403, 'insufficient_role'];
  }
  if (parameters.length === 0) return 'done';
  if (holder === 'auditor') return reads ? 'done' : [403, 'insufficient_role'];
  const ofLead = ['getKey', 'updateKey', 'revokeKey', 'getKeyUsage', 'getOverride', 'getRequest'];
  if (holder === 'lead' && ofLead.includes(operation)) return 'done';
  // Its secret would spend from another counter.
  if (holder === 'lead' && operation === 'rotateKey') return [403, 'rotation_not_allowed'];
  if (holder === 'finance' && ['getOverride', 'getRequest', 'getTeam'].includes(operation)) return 'done';
  return [404, NOT_FOUND[parameters[0] ?? '']];
}

const NOT_FOUND: Readonly<Record<string, string>> = {
  key_id: 'key_not_found',
  override_id: 'override_not_found',
  policy_id: 'policy_not_found',
  request_id: 'request_not_found',
  team_id: 'team_not_found',
};
afterAll(async () => {
  await api.close();
  await issuer.close();
});

const OF_TOKENS = SCOPES.filter((scope) => scope !== 'inference');
const groupOf = (scope: string) => `may-${scope.toUpperCase()}`;

/** All scopes but those that allow the operation: `admin:read` reads what `operator` guards. */
function allBut({ scope, method }: Managed): string[] {
  const reads = scope === 'operator' && method === 'GET';
  return SCOPES.filter((one) => one !== scope && !(reads && one === 'admin:read'));
}

/** A token whose groups give these scopes. */
async function token(scopes: readonly string[], sub = 'ada'): Promise<string> {
  return await issuer.token(api.now, { sub, groups: scopes.map(groupOf) });
}

/** Calls an operation on new resources, or on those with the given ids. */
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

/** Ids that no resource has, as they stand in a path. */
function missingIds({ operation }: Managed): string[] {
  const malformed = fixtures.creates.get(operation);
  const ids = malformed ?? ['no-such-thing', '%', 'a/b', ' ', '\u0000', 'x'.repeat(5_000)];
  // What is not UTF-8 names nothing, either.
  return [...ids.map(encodeURIComponent), '%ff', '%', 'a%2', '%ed%a0%80'];
}

/** Faults of a request that are looked at after the id in its path. */
const FAULTS: Readonly<Record<string, { query?: string; type?: string; payload?: string }>> = {
  none: {},
  query: { query: '?no_such_parameter=1' },
  wait: { query: '?wait=no' },
  pageToken: { query: '?page_token=none' },
  field: { payload: '{"no_such_field":1}' },
  json: { payload: '{' },
  type: { payload: 'x', type: 'text/plain' },
  length: { payload: `"${'x'.repeat(70_000)}"` },
};

/** The answer to a request with a fault, without what differs between two answers in any case. */
async function answerTo({ method, path }: Managed, id: string, fault: string, key?: string): Promise<object> {
  const { query = '', type = 'application/json', payload } = FAULTS[fault] ?? {};
  const { status, text, headers } = await api.get(`/api/v1${path.replaceAll(/\{\w+\}/g, id)}${query}`, {
    method: method as 'POST',
    key: key ?? api.operatorKey,
    ...(method !== 'GET' && payload !== undefined && { payload, headers: { 'content-type': type } }),
  });
  const { 'x-request-id': requestId, date: _, ...others } = headers;
  return {
    status,
    text: text.replaceAll(String(requestId), ''),
    headers: { ...others, 'content-length': '' },
  };
}

/** Operations that change nothing, though they take a POST. */
const CHANGES_NOTHING = new Set(['checkPlan', 'explainName', 'explainProfile', 'testConnector']);

const refusalOf = ({ status, body }: Awaited<ReturnType<typeof call>>) => [
  status,
  (body.error as { code?: string } | undefined)?.code,
];

const nameOf = ({ operation, method, path }: Managed) => `${operation} (${method} ${path})`;
const withId = managed.filter(({ parameters }) => parameters.length > 0);
const ofTenants = managed.filter(({ scope }) => scope !== 'operator');

describe('every operation', () => {
  it('authenticates first: a call without a key is refused', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call(operation, { key: null, ids: 'no-such-thing', body: { no_such_field: 1 } });
      expect(refusalOf(response)).toEqual([401, 'missing_api_key']);
      expect(response.headers['www-authenticate']).toBe('Bearer');
    });
  });

  it('then checks the scope, before path and body, and names it', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const { key } = await api.issue({ scopes: allBut(operation) });
      // A caller without the scope learns nothing about resources.
      for (const ids of [undefined, 'no-such-thing']) {
        const response = await call(operation, { key, ...(ids && { ids }), body: { no_such_field: 1 } });
        expect(refusalOf(response)).toEqual([403, 'insufficient_scope']);
        expect(response.body.error).toMatchObject({ required_scope: operation.scope });
      }
    });
  });

  it('answers a secret in its grace period only if it changes nothing', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call(operation, { key: keys.inGrace });
      const reads = operation.method === 'GET' || CHANGES_NOTHING.has(operation.operation);
      if (reads) expect(response.status, JSON.stringify(response.body)).toBe(200);
      else expect(refusalOf(response)).toEqual([403, 'secret_in_grace']);
    });
  });

  it('does for each role what it allows, and all for the operator key', async () => {
    const rows = managed.flatMap((operation) =>
      [...HOLDERS, 'operatorKey' as const].map((holder) => ({ operation, holder })),
    );
    const rowName = ({ operation, holder }: (typeof rows)[number]) => `${holder}: ${nameOf(operation)}`;
    await expectTable(rows, rowName, async ({ operation, holder }) => {
      const isGiven = holder === 'operatorKey';
      const response = await call(operation, isGiven ? {} : { key: held[holder] ?? '' });
      const result = response.status < 300 ? 'done' : refusalOf(response);
      const expected = isGiven ? 'done' : expectedFor(holder, operation);
      expect(result, JSON.stringify(response.body)).toEqual(expected);
    });
  });

  it("hides another principal's resources, and shows its own", async () => {
    await expectTable(ofTenants, nameOf, async (operation) => {
      const { key } = await api.issue({ principal_id: 'somebody-else', scopes: [operation.scope] });
      for (const caller of [key, await token([operation.scope], 'somebody-else')]) {
        const response = await call(operation, { key: caller });
        if (operation.parameters.length > 0) expect(response.status).toBe(404);
        else expect(response.status).toBeLessThan(300);
      }
    });
  });

  it('answers every id that names nothing with one 404, whatever its query and body are', async () => {
    await expectTable(withId, nameOf, async (operation) => {
      const [first = '', ...others] = missingIds(operation);
      const expected = await answerTo(operation, first, 'none');
      expect(expected).toMatchObject({ status: 404 });
      for (const id of [first, ...others]) {
        expect(await answerTo(operation, id, 'none'), id).toEqual(expected);
      }
      for (const fault of Object.keys(FAULTS)) {
        expect(await answerTo(operation, first, fault), fault).toEqual(expected);
      }
    });
  });

  it("answers another principal's id as one that does not exist, byte for byte", async () => {
    const rows = withId.filter(({ scope }) => scope !== 'operator');
    await expectTable(rows, nameOf, async (operation) => {
      const { key } = await api.issue({ principal_id: 'somebody-else', scopes: [operation.scope] });
      const [name = ''] = operation.parameters;
      const theirs = await fixtures.parameter(api, name, operation.operation);
      for (const fault of Object.keys(FAULTS)) {
        const unknown = await answerTo(operation, 'no-such-thing', fault, key);
        expect(unknown).toMatchObject({ status: 404 });
        expect(await answerTo(operation, theirs, fault, key), fault).toEqual(unknown);
      }
    });
  });

  it('treats SQL in its path and query as text', async () => {
    const text = `x'"); DROP TABLE keys; --`;
    await expectTable(managed, nameOf, async (operation) => {
      const queries = operation.filters.map((name) => `?${name}=${encodeURIComponent(text)}`);
      const named = operation.parameters.length > 0 && !fixtures.creates.has(operation.operation);
      for (const query of [...(named ? [''] : []), ...queries]) {
        const path = `${operation.path}${query}`;
        const response = await call({ ...operation, path }, { ...(named && { ids: text }) });
        expect(response.status, query).toBeLessThan(500);
      }
      expect((await api.call('GET', '/keys?page_size=1')).status).toBe(200);
    });
  });

  it('rejects an unknown field, also if it takes no body', async () => {
    const writes = managed.filter(({ method }) => method !== 'GET');
    await expectTable(writes, nameOf, async (operation) => {
      const response = await call({ ...operation, takesBody: true }, { body: { no_such_field: 1 } });
      expect(refusalOf(response)).toEqual([400, 'invalid_request']);
    });
  });

  it('rejects an unknown query parameter', async () => {
    await expectTable(managed, nameOf, async (operation) => {
      const response = await call({ ...operation, path: `${operation.path}?no_such_parameter=1` });
      expect(response.status).toBe(400);
    });
  });
});

/**
 * One hook authenticates all operations, as the tables above show by a missing key, a missing scope and the roles. So what it
 * makes of a key or token is tested on one operation that reads and one that writes.
 */
describe.each(['listKeys', 'createPolicy'])('the authentication, at %s', (name) => {
  const operation = managed.find((one) => one.operation === name) as Managed;

  it('rejects a malformed or unknown key', async () => {
    expect(refusalOf(await call(operation, { key: 'sk-svc-nonsense' }))).toEqual([401, 'invalid_api_key']);
    expect(refusalOf(await call(operation, { key: mintToken() }))).toEqual([401, 'invalid_api_key']);
  });

  it('rejects a disabled or expired key, whatever its scopes', async () => {
    expect(refusalOf(await call(operation, { key: keys.disabled }))).toEqual([401, 'key_disabled']);
    expect(refusalOf(await call(operation, { key: keys.expired }))).toEqual([401, 'key_expired']);
  });

  it('rejects a token that is expired, for another service or unsigned', async () => {
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

  it('rejects a token whose groups do not map to the scope, or of an unknown principal', async () => {
    const response = await call(operation, { key: await token(allBut(operation)) });
    expect(refusalOf(response)).toEqual([403, 'insufficient_scope']);
    expect(response.body.error).toMatchObject({ required_scope: operation.scope });
    const strangers = await token(OF_TOKENS, 'a-stranger');
    expect(refusalOf(await call(operation, { key: strangers }))).toEqual([403, 'principal_unknown']);
  });

  it('accepts a token of an operator', async () => {
    const response = await call(operation, { key: await token(OF_TOKENS) });
    expect(response.status, JSON.stringify(response.body)).toBeLessThan(300);
  });
});
