import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { type Company, newCompany, type Person } from './company.ts';
import { chat, type HostileCase, message, responses } from './hostileCase.ts';
import { operate, type Product } from './product.ts';
import type { Scene } from './scene.ts';

type Json = Record<string, unknown>;
const ROW = 'teams and roles';

/** What members, leads, finance and auditors do to lift themselves, or to read what is others'. */
export const TEAMS: readonly HostileCase[] = [
  { row: ROW, title: 'no one raises their own rights, by any operation or plan', run: raiseOwnRights },
  { row: ROW, title: 'a lead gets no role of a member by a key that it issues', run: keysOfMembers },
  { row: ROW, title: 'show nothing of another team, by any read or filter', run: readsNothing },
  { row: ROW, title: 'finance reads spend and an auditor all; neither changes anything', run: readers },
  { row: ROW, title: 'whoami says who the key is, whatever else is sent', run: whoami },
  { row: ROW, title: 'counters of a shared policy show only those of the caller', run: counters },
  { row: ROW, title: 'a frozen team counts no tokens either, on any path', run: frozen },
  { row: ROW, title: 'a tree has no circle, also if two operators close it at once', run: circles },
  {
    row: ROW,
    title: 'a plan acts as its sender: it calls no other path, and a dry run keeps nothing',
    run: plans,
  },
];

interface Call {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly body?: unknown;
}

const refusalOf = ({ status, body }: { readonly status: number; readonly body: Json }) =>
  `${status} ${(body.error as Json | undefined)?.code}`;

const whoIs = async (product: Product, { key }: Pick<Person, 'key'>): Promise<Json> =>
  (await manage(product, 'GET', '/api/v1/whoami', { key })).body;

/** What a person would like to be changed for it. */
function lifts({ team, otherTeam, victim }: Company, { principal, keyId }: Person): Call[] {
  const ofRole = ['operator', 'finance', 'auditor'].map(
    (role): Call => ({ method: 'PUT', path: `/api/v1/principals/${principal}`, body: { role } }),
  );
  const ofTeams = [team, otherTeam].flatMap((id): Call[] => [
    { method: 'PUT', path: `/api/v1/teams/${id}/members/${principal}`, body: { role: 'lead' } },
    { method: 'DELETE', path: `/api/v1/teams/${id}/members/${principal}` },
    { method: 'PATCH', path: `/api/v1/teams/${id}`, body: { policy_id: null, member_policy_id: null } },
    { method: 'PATCH', path: `/api/v1/teams/${id}`, body: { parent_team_id: team } },
    { method: 'POST', path: `/api/v1/teams/${id}/freeze` },
    { method: 'POST', path: `/api/v1/teams/${id}/unfreeze` },
    { method: 'DELETE', path: `/api/v1/teams/${id}` },
  ]);
  const issue = (fields: Json): Call => ({
    method: 'POST',
    path: '/api/v1/keys',
    body: { name: 'lifted', ...fields },
  });
  return [
    ...ofRole,
    ...ofTeams,
    { method: 'PUT', path: `/api/v1/principals/${victim.principal}`, body: { active: false } },
    { method: 'POST', path: '/api/v1/teams', body: { name: `of ${principal}` } },
    { method: 'POST', path: '/api/v1/policies', body: { name: `of ${principal}` } },
    { method: 'PATCH', path: `/api/v1/policies/${victim.policyId}`, body: { limit_micro_usd: null } },
    { method: 'PATCH', path: `/api/v1/keys/${keyId}`, body: { attribution: { team: 'x' } } },
    { method: 'PATCH', path: `/api/v1/keys/${keyId}`, body: { policy_id: victim.policyId } },
    { method: 'PATCH', path: `/api/v1/keys/${victim.keyId}`, body: { disabled: true } },
    { method: 'POST', path: `/api/v1/keys/${victim.keyId}/rotate`, body: {} },
    { method: 'DELETE', path: `/api/v1/keys/${victim.keyId}` },
    issue({ scopes: ['operator'] }),
    issue({ principal_id: victim.principal }),
    issue({ principal_id: `new-${principal}` }),
    { method: 'POST', path: '/api/v1/webhooks', body: { name: principal, url: 'https://hooks.test/' } },
  ];
}

async function raiseOwnRights(scene: Scene): Promise<void> {
  const { product } = scene;
  const company = await newCompany(scene);
  const { member, lead, otherLead, finance, auditor } = company;
  const revision = async () =>
    (await operate(product, 'GET', `/api/v1/audit?resource_id=${company.otherTeam}`)).data;
  const before = await revision();
  for (const person of [member, lead, finance, auditor]) {
    const was = await whoIs(product, person);
    for (const { method, path, body } of lifts(company, person)) {
      const answer = await manage(product, method, path, {
        key: person.key,
        ...(body !== undefined && { body }),
      });
      const told = `${person.principal} ${method} ${path} ${JSON.stringify(body)}: ${refusalOf(answer)}`;
      expect([403, 404], told).toContain(answer.status);
    }
    const { status } = await manage(product, 'POST', '/api/v1/apply', {
      key: person.key,
      body: { calls: lifts(company, person).filter(({ path }) => !path.endsWith('/freeze')) },
    });
    expect(status).toBe(403);
    expect(await whoIs(product, person)).toEqual(was);
  }
  expect(await revision()).toEqual(before);
  expect(await whoIs(product, otherLead)).toMatchObject({ roles: ['lead'] });
}

async function keysOfMembers(scene: Scene): Promise<void> {
  const { product } = scene;
  const { team, lead, colleague, canary } = await newCompany(scene);
  const put = (path: string, body: Json) => operate(product, 'PUT', `/api/v1/${path}?wait=propagated`, body);
  const issue = async (key: string, fields: Json) =>
    await manage(product, 'POST', '/api/v1/keys', { key, body: { name: 'taken', ...fields } });
  const scopes = ['keys:read', 'keys:write', 'usage:read', 'inference'];
  // Roles that the member has when the key is issued, or gets later.
  for (const when of ['before', 'after']) {
    for (const role of ['operator', 'auditor', 'finance', 'lead elsewhere']) {
      const principal = `${role.split(' ')[0]}-${when}-${canary}`;
      await put(`teams/${team}/members/${principal}`, { role: 'member' });
      const promote = async () => {
        if (role !== 'lead elsewhere') return await put(`principals/${principal}`, { role });
        const elsewhere = await operate(product, 'POST', '/api/v1/teams', { name: `below ${principal}` });
        return await put(`teams/${elsewhere.id}/members/${principal}`, { role: 'lead' });
      };
      if (when === 'before' && role !== 'lead elsewhere') await promote();
      for (const scope of ['operator', 'admin:read']) {
        const refused = await issue(lead.key, { principal_id: principal, scopes: [scope] });
        expect(refusalOf(refused)).toBe('403 insufficient_role');
      }
      const taken = await issue(lead.key, { principal_id: principal, scopes });
      expect(taken.status).toBe(201);
      const child = await issue(String(taken.body.key), { scopes });
      expect(child.status).toBe(201);
      if (when === 'after') await promote();
      for (const { body } of [taken, child]) {
        const key = String(body.key);
        expect([principal, (await whoIs(product, { key })).roles]).toEqual([principal, ['member']]);
        const spend = await manage(product, 'GET', `/api/v1/spend?principal_id=${colleague.principal}`, {
          key,
        });
        expect([principal, refusalOf(spend)]).toEqual([principal, '403 principal_not_allowed']);
        const keys = (await manage(product, 'GET', '/api/v1/keys?page_size=500', { key })).body.data;
        const owners = new Set((keys as Json[]).map((one) => one.principal_id));
        expect([...owners]).toEqual([principal]);
      }
    }
  }
}

interface Operation {
  readonly 'x-required-scope'?: string;
  readonly parameters?: readonly { readonly name: string; readonly in: string }[];
}

/** Every read of the product's own document, with the victim's ids and names as ids and filters. */
async function readsOf(product: Product, { canary, otherTeam, victim }: Company): Promise<string[]> {
  const { body } = await manage(product, 'GET', '/api/v1/openapi.json');
  const paths = body.paths as Record<string, { readonly get?: Operation }>;
  const ids: Readonly<Record<string, string>> = {
    key_id: victim.keyId,
    policy_id: victim.policyId,
    team_id: otherTeam,
    principal_id: victim.principal,
    request_id: victim.requestId,
    parent_team_id: otherTeam,
    parent_policy_id: victim.policyId,
    resource_id: otherTeam,
    actor_principal_id: victim.principal,
    name_contains: canary,
    id_contains: canary,
    group_by: 'principal,key,policy,team_id,session',
    outcome: 'refused',
    page_size: '500',
    sort: '-cost',
  };
  return Object.entries(paths).flatMap(([path, { get }]) => {
    if (!path.startsWith('/api/v1/') || !get) return [];
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      encodeURIComponent(ids[name] ?? 'none'),
    );
    const queries = (get.parameters ?? []).flatMap(({ name, in: where }) =>
      where === 'query' && ids[name] !== undefined ? [`?${name}=${encodeURIComponent(ids[name])}`] : [],
    );
    return [filled, ...queries.map((query) => filled + query)];
  });
}

/** An answer as text: exports are no JSON. */
async function read(product: Product, path: string, key: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${product.managementUrl}${path}`, {
    headers: { authorization: `Bearer ${key}` },
  });
  return { status: answer.status, text: await answer.text() };
}

async function readsNothing(scene: Scene): Promise<void> {
  const { product } = scene;
  const company = await newCompany(scene);
  const reads = await readsOf(product, company);
  expect(reads.length).toBeGreaterThan(80);
  for (const { key, principal } of [company.member, company.lead]) {
    for (const path of reads) {
      const { status, text } = await read(product, path, key);
      expect(status, `${principal} ${path}`).toBeLessThan(500);
      expect(text, `${principal} ${path}`).not.toContain(company.canary);
    }
  }
  const { otherLead, victim, finance } = company;
  // The check can fail: who may see the victim does.
  for (const { key } of [otherLead, finance]) {
    const path = `/api/v1/requests?principal_id=${victim.principal}`;
    const { body } = await manage(product, 'GET', path, { key });
    expect(JSON.stringify(body)).toContain(victim.requestId);
  }
}

async function readers(scene: Scene): Promise<void> {
  const { product } = scene;
  const company = await newCompany(scene);
  const { finance, auditor, victim, canary } = company;
  for (const path of await readsOf(product, company)) {
    const { text, status } = await read(product, path, finance.key);
    expect(status, path).toBeLessThan(500);
    if (/^\/api\/v1\/(spend|requests|teams)/.test(path)) continue;
    expect(text, path).not.toContain(canary);
  }
  const seen = await manage(product, 'GET', `/api/v1/keys/${victim.keyId}`, { key: auditor.key });
  expect(seen.body).toMatchObject({ principal_id: victim.principal });
  const { body } = await manage(product, 'GET', '/api/v1/openapi.json');
  const paths = body.paths as Record<string, Record<string, Operation>>;
  const changes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).flatMap((method) =>
      path.startsWith('/api/v1/') && path.includes('{') && method !== 'get'
        ? [[method.toUpperCase(), path]]
        : [],
    ),
  );
  const ids: Readonly<Record<string, string>> = {
    key_id: victim.keyId,
    policy_id: victim.policyId,
    team_id: company.otherTeam,
    principal_id: victim.principal,
    request_id: victim.requestId,
  };
  for (const [method = '', path = ''] of changes) {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? 'none');
    for (const { key } of [finance, auditor]) {
      const answer = await manage(product, method, filled, { key, body: {} });
      expect([403, 404], `${method} ${path}: ${refusalOf(answer)}`).toContain(answer.status);
    }
  }
}

async function whoami(scene: Scene): Promise<void> {
  const { product } = scene;
  const { member, victim, team } = await newCompany(scene);
  const own = await whoIs(product, member);
  expect(own).toMatchObject({ principal_id: member.principal, roles: ['member'], teams: [{ id: team }] });
  const forged = ['x-principal-id', 'x-svc-user', 'x-svc-team', 'x-forwarded-user', 'x-role', 'cookie'];
  const answer = await fetch(`${product.managementUrl}/api/v1/whoami`, {
    headers: {
      authorization: `Bearer ${member.key}`,
      ...Object.fromEntries(forged.map((name) => [name, victim.principal])),
    },
  });
  expect(await answer.json()).toEqual(own);
  for (const query of ['principal_id', 'key_id', 'role', 'team_id']) {
    const path = `/api/v1/whoami?${query}=${victim.principal}`;
    expect(refusalOf(await manage(product, 'GET', path, { key: member.key }))).toBe('400 invalid_request');
  }
}

async function counters(scene: Scene): Promise<void> {
  const { product } = scene;
  const { member, colleague, victim, lead, canary } = await newCompany(scene);
  const { id } = await operate(product, 'POST', '/api/v1/policies', {
    name: `shared ${member.principal}`,
    counter_scope: 'principal',
  });
  for (const { principal } of [member, colleague, victim])
    await operate(product, 'PUT', `/api/v1/principals/${principal}?wait=propagated`, { policy_id: id });
  for (const { key } of [member, colleague, victim]) {
    const asked = await fetch(`${product.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(chat('openai/plain')),
    });
    expect(asked.status).toBe(200);
  }
  const list = async ({ key }: Person, query = '') =>
    await manage(product, 'GET', `/api/v1/policies/${id}/counters${query}`, { key });
  await eventually(
    async () => {
      const { data } = await operate(product, 'GET', `/api/v1/policies/${id}/counters`);
      expect((data as Json[]).filter((row) => Number(row.spent_micro_usd) > 0)).toHaveLength(3);
    },
    { intervalMs: 100 },
  );
  for (const sort of ['spent', '-spent', 'leased', '-leased']) {
    const { body } = await list(member, `?sort=${sort}&page_size=500`);
    expect((body.data as Json[]).map((row) => row.principal_id)).toEqual([member.principal]);
    expect(body.next_page_token).toBe('');
  }
  for (const other of [colleague, victim]) {
    const refused = await list(member, `?principal_id=${other.principal}`);
    expect(refusalOf(refused)).toBe('403 principal_not_allowed');
  }
  // It governs neither the lead nor its team.
  expect(refusalOf(await list(lead))).toBe('404 policy_not_found');
  const { body: all } = await manage(product, 'GET', `/api/v1/policies/${id}/counters?page_size=1`);
  const token = encodeURIComponent(String(all.next_page_token));
  expect(refusalOf(await list(member, `?page_size=1&page_token=${token}`))).toBe('400 invalid_page_token');
  expect(JSON.stringify((await list(member)).body)).not.toContain(canary);
}

async function frozen(scene: Scene): Promise<void> {
  const { product } = scene;
  const { team, member } = await newCompany(scene);
  await operate(product, 'POST', `/api/v1/teams/${team}/freeze?wait=propagated`);
  const generate = { contents: [{ role: 'user', parts: [{ text: 'weigh' }] }] };
  const bodies: Readonly<Record<string, unknown>> = {
    '/v1/chat/completions': chat('openai/plain'),
    '/v1/messages': message(),
    '/v1/messages/count_tokens': chat('anthropic/plain'),
    '/v1/responses': responses(),
    '/v1/responses/input_tokens': responses(),
    '/v1beta/models/gemini/plain:generateContent': generate,
    '/v1beta/models/gemini/plain:countTokens': generate,
    '/v1/embeddings': { model: 'openai/plain', input: 'weigh' },
  };
  for (const [path, body] of Object.entries(bodies)) {
    const answer = await fetch(`${product.inferenceUrl}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${member.key}`,
        'content-type': 'application/json',
        'x-mark': 'frozen',
      },
      body: JSON.stringify(body),
    });
    expect([path, answer.status]).toEqual([path, 403]);
    expect(await answer.text(), path).toMatch(/frozen/);
  }
  const sent = scene.vendors.flatMap(({ requests }) =>
    requests.filter(({ headers }) => headers['x-mark'] === 'frozen'),
  );
  expect(sent).toEqual([]);
  // Its settings can still be read, and its key can't end that.
  expect(await whoIs(product, member)).toMatchObject({ teams: [{ frozen: true }] });
}

async function circles({ product }: Scene): Promise<void> {
  const made = async (name: string, parent_team_id: string | null = null) =>
    String((await operate(product, 'POST', '/api/v1/teams', { name, parent_team_id })).id);
  const under = async (id: string, parent_team_id: string) =>
    refusalOf(await manage(product, 'PATCH', `/api/v1/teams/${id}`, { body: { parent_team_id } }));
  for (let round = 0; round < 5; round++) {
    const name = `circle ${Math.random()}`;
    const [a, b] = [await made(`${name} a`), await made(`${name} b`)];
    expect(await under(a, a)).toBe('422 team_cycle');
    const both = await Promise.all([under(a, b), under(b, a)]);
    expect(both.sort()).toEqual(['200 undefined', '422 team_cycle']);
    const deep = await Promise.all([made(`${name} c`, a), made(`${name} d`, b)]);
    for (const id of deep) {
      const { body } = await manage(product, 'GET', `/api/v1/teams/${id}`);
      expect(body.id).toBe(id);
    }
  }
}

async function plans(scene: Scene): Promise<void> {
  const { product } = scene;
  const check = async (calls: unknown, key?: string) =>
    await manage(product, 'POST', '/api/v1/apply', {
      body: { calls, dry_run: true },
      ...(key !== undefined && { key }),
    });
  const issue = { method: 'POST', path: '/api/v1/keys', body: { name: 'planned key of nobody' } };
  expect((await check([{ ...issue, headers: { authorization: 'x' } }])).status).toBe(400);
  for (const path of [
    '/api/v1/apply',
    '/api/v1/../../v1/chat/completions',
    '/api/v1/%2e%2e/%2e%2e/v1/models',
    '/api/v1//keys',
    '/api/v1/keys?wait=propagated',
    '/api/v1/keys#x',
    '/api/v1/{a}',
  ]) {
    const { status, body } = await check([{ method: 'POST', path, body: {} }]);
    const told = `${path}: ${status} ${JSON.stringify(body)}`;
    expect(status, told).toBeLessThan(500);
    if (status === 200) expect((body.errors as Json[]).length, told).toBe(1);
  }
  const odd = ['__proto__', 'constructor', '{', '}', '$&', 'x'.repeat(500)];
  for (const creates of odd) {
    const { status, body } = await check([
      { ...issue, creates },
      { method: 'PATCH', path: `/api/v1/keys/${encodeURIComponent(creates)}`, body: { name: creates } },
    ]);
    expect(status, creates).toBeLessThan(500);
    expect(JSON.stringify(body)).not.toMatch(/sk-svc-/);
  }
  const nested = `${'['.repeat(50_000)}${']'.repeat(50_000)}`;
  const answer = await fetch(`${product.managementUrl}/api/v1/apply`, {
    method: 'POST',
    headers: { authorization: `Bearer ${product.operatorKey}`, 'content-type': 'application/json' },
    body: `{"calls":[{"method":"POST","path":"/api/v1/keys","body":${nested}}]}`,
  });
  expect(answer.status).toBe(400);
  const { data } = await operate(product, 'GET', '/api/v1/keys?name_contains=planned%20key%20of%20nobody');
  expect(data).toEqual([]);
  const tenant = await scene.tenant();
  // Of a tenant too, within the limit of ordinary bodies.
  const deep = `${'['.repeat(30_000)}${']'.repeat(30_000)}`;
  const issued = await fetch(`${product.managementUrl}/api/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json' },
    body: `{"name":"deep","attribution":${deep}}`,
  });
  expect(issued.status).toBe(400);
  for (const calls of [[issue], [], null, 'x'])
    expect(refusalOf(await check(calls, tenant.key))).toBe('403 insufficient_scope');
}
