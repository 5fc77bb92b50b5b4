import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { startTestIssuer, TEST_AUDIENCE, type TestIssuer } from '@weighbridge/testing';
import { afterAll, beforeAll, expect } from 'vitest';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';
import { SCOPES } from '../src/shared/scopes.ts';
import { fixtures } from './fixtures.ts';
import { type Json, startTestApi, type TestApi } from './testApi.ts';

const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
);
/** Every management operation of the document. */
export const managed = operations(document)
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
export type Managed = (typeof managed)[number];

/** Everyone of them has a key with all scopes, so that only its role decides. */
export const HOLDERS = ['member', 'lead', 'otherLead', 'finance', 'auditor', 'operator'] as const;
export type Holder = (typeof HOLDERS)[number];

/** What an operation answers to each of them on an object of the team's member: the status, and the code of an error. */
export function expectedFor(holder: Holder, { operation, method, scope, parameters }: Managed): unknown {
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

export const OF_TOKENS = SCOPES.filter((scope) => scope !== 'inference');
export const groupOf = (scope: string) => `may-${scope.toUpperCase()}`;

/** All scopes but those that allow the operation: `admin:read` reads what `operator` guards. */
export function allBut({ scope, method }: Managed): string[] {
  const reads = scope === 'operator' && method === 'GET';
  return SCOPES.filter((one) => one !== scope && !(reads && one === 'admin:read'));
}

/** Ids that no resource has, as they stand in a path. */
export function missingIds({ operation }: Managed): string[] {
  const malformed = fixtures.creates.get(operation);
  const ids = malformed ?? ['no-such-thing', '%', 'a/b', ' ', '\u0000', 'x'.repeat(5_000)];
  // What is not UTF-8 names nothing, either.
  return [...ids.map(encodeURIComponent), '%ff', '%', 'a%2', '%ed%a0%80'];
}

/** Faults of a request that are looked at after the id in its path. */
export const FAULTS: Readonly<Record<string, { query?: string; type?: string; payload?: string }>> = {
  none: {},
  query: { query: '?no_such_parameter=1' },
  wait: { query: '?wait=no' },
  pageToken: { query: '?page_token=none' },
  field: { payload: '{"no_such_field":1}' },
  json: { payload: '{' },
  type: { payload: 'x', type: 'text/plain' },
  length: { payload: `"${'x'.repeat(70_000)}"` },
};

/** Operations that change nothing, though they take a POST. */
export const CHANGES_NOTHING = new Set(['explainName', 'explainProfile', 'testConnector']);

export const refusalOf = ({ status, body }: { readonly status: number; readonly body: Json }) => [
  status,
  (body.error as { code?: string } | undefined)?.code,
];

export const nameOf = ({ operation, method, path }: Managed) => `${operation} (${method} ${path})`;
export const withId = managed.filter(({ parameters }) => parameters.length > 0);
export const ofTenants = managed.filter(({ scope }) => scope !== 'operator');

interface Prepared {
  readonly path: string;
  readonly body: unknown;
}

interface CallOptions {
  readonly key?: string | null;
  readonly ids?: string;
  readonly body?: unknown;
  readonly prepared?: Prepared;
}

/** Before the tests of a file: an API with a key of each kind and role, and a provider of tokens. */
export function useOperations() {
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

  afterAll(async () => {
    await api.close();
    await issuer.close();
  });

  /** A token whose groups give these scopes. */
  async function token(scopes: readonly string[], sub = 'ada'): Promise<string> {
    return await issuer.token(api.now, { sub, groups: scopes.map(groupOf) });
  }

  /** The path and body of a call on new resources. */
  async function prepare(operation: Managed): Promise<Prepared> {
    return { path: await pathOf(operation), body: await bodyOf(operation) };
  }

  async function pathOf({ operation, path, parameters }: Managed): Promise<string> {
    let filled = path;
    for (const name of parameters) {
      const value = await fixtures.parameter(api, name, operation);
      filled = filled.replace(`{${name}}`, encodeURIComponent(value));
    }
    return filled;
  }

  async function bodyOf({ operation, method, takesBody }: Managed): Promise<unknown> {
    return takesBody ? await fixtures.body(api, operation, method) : undefined;
  }

  /** Calls an operation as it was prepared; by default on new resources, or on those with the given ids. */
  async function call(operation: Managed, options: CallOptions = {}): ReturnType<TestApi['call']> {
    const { key, ids, prepared } = options;
    const path =
      prepared?.path ??
      (ids === undefined
        ? await pathOf(operation)
        : operation.path.replaceAll(/\{\w+\}/g, encodeURIComponent(ids)));
    const body = options.body ?? prepared?.body ?? (await bodyOf(operation));
    return await api.call(operation.method, path, {
      ...(key !== undefined && { key }),
      ...(operation.takesBody && body !== undefined && { body }),
    });
  }

  /** The answer to a request with a fault, without what differs between two answers in any case. */
  async function answerTo(
    { method, path }: Managed,
    id: string,
    fault: string,
    key?: string,
  ): Promise<object> {
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

  return { api: () => api, issuer: () => issuer, keys, held, token, prepare, call, answerTo };
}
