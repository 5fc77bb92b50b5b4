import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { createSealer } from '../../sealing/envelope.ts';
import { applyEnvironmentConnectors, resealCredentials, usableConnectors } from './connectors.service.ts';
import { environmentConnectors } from './connectors.ts';
import { noticeChangedFiles } from './credentialFiles.service.ts';
import { createCredentials } from './credentials.ts';
import { upstreamHosts } from './upstreamHosts.ts';

const KEK = randomBytes(32);
const CANARY = 'sk-canary-Zk3v9Qw7XbR2mLp8';
const ENV = { OPENAI_API_KEY: 'sk-of-the-environment' };

let api: TestApi;
let vendor: Server;
let vendorUrl: string;
beforeAll(async () => {
  vendor = createServer((request, response) => {
    response
      .writeHead(401)
      .end(JSON.stringify({ error: { message: `no: ${request.headers.authorization}` } }));
  });
  await new Promise<void>((ready) => vendor.listen(0, '127.0.0.1', ready));
  const host = `127.0.0.1:${(vendor.address() as AddressInfo).port}`;
  vendorUrl = `http://${host}/v1`;
  api = await startTestApi({
    ...ENV,
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: KEK.toString('base64'),
    ALLOWED_UPSTREAM_HOSTS: host,
    VENDOR_KEY: 'sk-by-reference',
  });
});
afterAll(async () => {
  await api.close();
  vendor.close();
});

const refusalOf = async (answer: Promise<{ status: number; body: Json }>) => {
  const { status, body } = await answer;
  const error = body.error as { code: string; param: string | null } | undefined;
  return [status, error?.code, error?.param];
};
let count = 0;
const uniqueName = () => `test ${++count}`;
async function create(fields: Json = {}): Promise<Json & { id: string }> {
  const { status, body } = await api.call('POST', '/connectors', {
    body: { name: uniqueName(), provider: 'groq', ...fields },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return body as Json & { id: string };
}
const environments = async (): Promise<Json & { id: string }> => {
  const { body } = await api.call('GET', '/connectors?name_contains=env-openai');
  return (body.data as (Json & { id: string })[])[0] as Json & { id: string };
};
const revision = async () =>
  (await api.db.selectFrom('revision').select('revision').executeTakeFirstOrThrow()).revision;
const auditOf = async (id: string) =>
  (
    await api.db.selectFrom('audit_log').selectAll().where('resource_id', '=', id).orderBy('id').execute()
  ).map(({ action }) => action);

describe('a connector', () => {
  it('of a known provider needs no more than a name, and shows every field but its credential', async () => {
    const connector = await create({ name: ' groq ', credential: CANARY });
    expect(connector).toEqual({
      id: expect.stringMatching(/^con_/),
      name: 'groq',
      provider: 'groq',
      dialect: 'openai',
      base_url: 'https://api.groq.com/openai/v1',
      credential_ref: null,
      credential_sealed: true,
      usable: true,
      unusable_reason: null,
      enabled: true,
      priority: 0,
      weight: 1,
      max_parallel: null,
      connect_timeout_ms: null,
      first_byte_timeout_ms: null,
      chunk_timeout_ms: null,
      models: [],
      upstream_names: {},
      origin: 'operator',
      created_at: api.now.toISOString(),
      updated_at: api.now.toISOString(),
    });
    expect((await api.call('GET', `/connectors/${connector.id}`)).body).toEqual(connector);
    expect(await auditOf(connector.id)).toEqual(['connector.created']);
  });

  it.each([
    [{ provider: 'groq' }, 400, 'invalid_request', 'name'],
    [{ name: 'a' }, 400, 'invalid_request', 'provider'],
    [{ name: 'a', provider: 'groq', unknown: 1 }, 400, 'invalid_request', 'unknown'],
    [{ name: 'a', provider: 'groq', priority: 1.5 }, 400, 'invalid_request', 'priority'],
    [{ name: 'a', provider: 'groq', weight: 0 }, 400, 'invalid_request', 'weight'],
    [{ name: 'a', provider: 'groq', enabled: 'true' }, 400, 'invalid_request', 'enabled'],
    [{ name: 'a', provider: 'groq', dialect: 'grpc' }, 400, 'invalid_request', 'dialect'],
    [{ name: ' ', provider: 'groq' }, 422, 'name_invalid', 'name'],
    [{ name: 'env-groq', provider: 'groq' }, 422, 'name_invalid', 'name'],
    [{ name: 'a', provider: 'router' }, 422, 'provider_invalid', 'provider'],
    [{ name: 'a', provider: 'Groq' }, 422, 'provider_invalid', 'provider'],
    [{ name: 'a', provider: 'acme', base_url: 'https://acme.test/v1' }, 422, 'dialect_required', 'dialect'],
    [{ name: 'a', provider: 'acme', dialect: 'openai' }, 422, 'base_url_required', 'base_url'],
    [{ name: 'a', provider: 'groq', base_url: 'http://acme.test/v1' }, 422, 'base_url_invalid', 'base_url'],
    [{ name: 'a', provider: 'groq', base_url: 'https://a:b@acme.test' }, 422, 'base_url_invalid', 'base_url'],
    [{ name: 'a', provider: 'groq', base_url: 'https://10.0.0.1' }, 422, 'base_url_invalid', 'base_url'],
    [{ name: 'a', provider: 'groq', credential: 'a\nb' }, 422, 'credential_invalid', 'credential'],
    [{ name: 'a', provider: 'groq', credential: '' }, 422, 'credential_invalid', 'credential'],
    [
      { name: 'a', provider: 'groq', credential_ref: 'sk-x' },
      422,
      'credential_ref_invalid',
      'credential_ref',
    ],
    [
      { name: 'a', provider: 'groq', credential_ref: 'env:A', credential: 'b' },
      422,
      'credential_ambiguous',
      'credential',
    ],
    [{ name: 'a', provider: 'groq', models: ['llama-*'] }, 422, 'models_invalid', 'models'],
    [{ name: 'a', provider: 'groq', models: ['openai/*'] }, 422, 'models_invalid', 'models'],
    [{ name: 'a', provider: 'groq', models: ['groq/a*b*c*d*e*f*g*h*i*j'] }, 422, 'models_invalid', 'models'],
    [
      { name: 'a', provider: 'groq', upstream_names: { 'openai/x': 'y' } },
      422,
      'upstream_names_invalid',
      'upstream_names',
    ],
  ])('refuses %j with %d %s', async (body, status, code, param) => {
    expect(await refusalOf(api.call('POST', '/connectors', { body }))).toEqual([status, code, param]);
  });

  it('changes what is named, and nothing without a change', async () => {
    const { id, ...before } = await create({ credential_ref: 'env:VENDOR_KEY' });
    const at = await revision();
    expect((await api.call('PATCH', `/connectors/${id}`, { body: {} })).body).toEqual({ id, ...before });
    const same = {
      name: before.name,
      credential_ref: 'env:VENDOR_KEY',
      weight: 1,
      models: [],
      upstream_names: {},
    };
    expect((await api.call('PATCH', `/connectors/${id}`, { body: same })).body).toEqual({ id, ...before });
    expect(await revision()).toBe(at);

    const changes = {
      name: uniqueName(),
      enabled: false,
      priority: -1,
      weight: 3,
      max_parallel: 7,
      first_byte_timeout_ms: 90_000,
      models: ['groq/llama-*'],
      upstream_names: { 'groq/llama-3': 'deployment-1' },
    };
    api.now = new Date(api.now.getTime() + 1_000);
    const { body } = await api.call('PATCH', `/connectors/${id}`, { body: changes });
    expect(body).toEqual({ ...before, id, ...changes, updated_at: api.now.toISOString() });
    const cleared = await api.call('PATCH', `/connectors/${id}`, {
      body: { max_parallel: null, credential_ref: null },
    });
    expect(cleared.body).toMatchObject({ max_parallel: null, credential_ref: null, usable: true });
    expect(await revision()).toBe(at + 2n);
    expect(await refusalOf(api.call('PATCH', `/connectors/${id}`, { body: { provider: 'openai' } }))).toEqual(
      [400, 'invalid_request', 'provider'],
    );
  });

  it('says why it can not be used, and the proxies do not hear of it', async () => {
    const gone = await create({ credential_ref: 'env:NOT_THERE' });
    expect(gone).toMatchObject({ usable: false, unusable_reason: expect.stringContaining('env:NOT_THERE') });
    const here = await create({ credential_ref: 'env:VENDOR_KEY' });
    expect(here).toMatchObject({ usable: true, unusable_reason: null });
    const told = (await api.snapshot()).connectors;
    expect(told.find(({ id }) => id === gone.id)).toBeUndefined();
    expect(told.find(({ id }) => id === here.id)).toMatchObject({ credential: 'sk-by-reference' });
  });

  it('is gone once deleted, its credential with it; its row stays for the ledger, and its name is free', async () => {
    const { id, name } = await create({ credential: CANARY });
    expect((await api.call('DELETE', `/connectors/${id}`)).status).toBe(200);
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const body = method === 'PATCH' ? { nonsense: 1 } : undefined;
      expect(await refusalOf(api.call(method, `/connectors/${id}`, { body }))).toEqual([
        404,
        'connector_not_found',
        'connector_id',
      ]);
    }
    const row = await api.db
      .selectFrom('connectors')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ name, provider: 'groq', credential_sealed: null, credential_ref: null });
    expect((await create({ name })).name).toBe(name);
    expect((await api.snapshot()).connectors.some((connector) => connector.id === id)).toBe(false);
  });

  it('is listed page by page, by provider, by name and by whether it is enabled', async () => {
    const ids: unknown[] = [];
    for (let index = 0; index < 5; index++) {
      const fields = { provider: 'mistral', name: `Page_${index} 100%`, enabled: index % 2 === 0 };
      ids.unshift((await create(fields)).id);
    }
    const list = async (query: string) => {
      const { body } = await api.call('GET', `/connectors?${query}`);
      return body as { data: Json[]; next_page_token: string };
    };
    const first = await list('provider=mistral&page_size=3');
    await create({ provider: 'mistral' });
    const second = await list(`provider=mistral&page_size=3&page_token=${first.next_page_token}`);
    expect([...first.data, ...second.data].map(({ id }) => id)).toEqual(ids);
    expect(second.next_page_token).toBe('');
    expect((await list('provider=mistral&enabled=false')).data).toHaveLength(2);
    expect((await list('name_contains=page_1')).data.map(({ name }) => name)).toEqual(['Page_1 100%']);
    expect((await list('name_contains=%25')).data).toHaveLength(5);
    expect((await list('provider=nobody')).data).toEqual([]);
    expect(await refusalOf(api.call('GET', '/connectors?page_token=nonsense'))).toEqual([
      400,
      'invalid_page_token',
      'page_token',
    ]);
    expect(await refusalOf(api.call('GET', '/connectors?enabled=yes'))).toEqual([
      400,
      'invalid_request',
      'enabled',
    ]);
  });

  it('keeps both of two changes at once, and gives a name to one of two', async () => {
    const { id } = await create();
    await Promise.all([
      api.call('PATCH', `/connectors/${id}`, { body: { priority: 5 } }),
      api.call('PATCH', `/connectors/${id}`, { body: { weight: 9 } }),
      api.call('PATCH', `/connectors/${id}`, { body: { models: ['groq/*'] } }),
    ]);
    expect((await api.call('GET', `/connectors/${id}`)).body).toMatchObject({
      priority: 5,
      weight: 9,
      models: ['groq/*'],
    });

    const name = uniqueName();
    const others = await Promise.all([create(), create(), create()]);
    const answers = await Promise.all([
      api.call('POST', '/connectors', { body: { name, provider: 'groq' } }),
      ...others.map((other) => api.call('PATCH', `/connectors/${other.id}`, { body: { name } })),
    ]);
    expect(answers.map(({ status }) => status).filter((status) => status < 300)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(3);
  });
});

describe('a connector of the environment', () => {
  it('keeps what the environment says of it, and takes what is the operator’s', async () => {
    const { id, base_url } = await environments();
    for (const body of [
      { base_url: 'https://evil.test' },
      { credential: 'x' },
      { name: 'mine' },
      { dialect: 'anthropic' },
    ]) {
      expect((await refusalOf(api.call('PATCH', `/connectors/${id}`, { body }))).slice(0, 2)).toEqual([
        409,
        'connector_of_environment',
      ]);
    }
    expect((await refusalOf(api.call('DELETE', `/connectors/${id}`)))[1]).toBe('connector_of_environment');
    const changes = { enabled: false, priority: 3, models: ['openai/gpt-*'], base_url };
    expect((await api.call('PATCH', `/connectors/${id}`, { body: changes })).body).toMatchObject(changes);
    // A start does not undo it, be the key there all the time, gone for a while, or another one.
    for (const env of [ENV, {}, { ...ENV, OPENAI_BASE_URL: 'https://proxy.test/v1' }]) {
      await applyEnvironmentConnectors(api.db, environmentConnectors(env, undefined), api.now);
      expect(await environments()).toMatchObject({
        id,
        enabled: false,
        priority: 3,
        usable: 'OPENAI_API_KEY' in env,
      });
    }
    expect((await environments()).base_url).toBe('https://proxy.test/v1');
    await api.call('PATCH', `/connectors/${id}`, { body: { enabled: true, models: [] } });
  });
});

describe('a credential', () => {
  it('never shows in an answer, the audit log, a log line or, unsealed, in the database', async () => {
    const said: string[] = [];
    const call: TestApi['call'] = async (...args) => {
      const answer = await api.call(...args);
      said.push(JSON.stringify(answer));
      return answer;
    };
    const fields = { provider: 'groq', base_url: vendorUrl, credential: CANARY };
    const created = await call('POST', '/connectors', { body: { ...fields, name: uniqueName() } });
    const path = `/connectors/${created.body.id}`;
    await call('PATCH', path, { body: { credential: `${CANARY}2` } });
    const tested = await call('POST', `${path}/test`);
    expect(tested.body).toMatchObject({
      ok: false,
      status: 401,
      message: expect.stringContaining('[removed]'),
    });
    await call('GET', path);
    await call('GET', '/connectors');
    // What is refused is not repeated either.
    await call('POST', '/connectors', { body: { ...fields, name: created.body.name } });
    await call('POST', '/connectors', { body: { name: 'a', provider: 'groq', credential: [CANARY] } });
    await call('POST', '/connectors', {
      body: { name: 'a', provider: 'groq', credential: `${CANARY} `.repeat(2) },
    });
    await call('POST', '/connectors', { body: { name: 'a', provider: 'groq', credential_ref: CANARY } });
    await call('PATCH', path, { body: { credential: CANARY, credential_ref: 'env:A' } });
    const malformed = await call('POST', '/connectors', {
      body: `{"name":"a","credential":"${CANARY}"`,
      headers: { 'content-type': 'application/json' },
    });
    expect(malformed.status).toBe(400);
    const { rows } = await sql<{ text: string }>`
      SELECT to_jsonb(connectors)::text AS text FROM connectors UNION ALL
      SELECT to_jsonb(audit_log)::text FROM audit_log`.execute(api.db);
    const everything = [...said, api.log(), ...rows.map(({ text }) => text)].join('\n');
    expect(everything).toContain(created.body.id);
    for (const form of ['utf8', 'hex', 'base64'] as const) {
      const text = Buffer.from(CANARY).toString(form).slice(0, 24);
      expect(everything.toLowerCase().includes(text.toLowerCase()), form).toBe(false);
    }
    // The proxies need it.
    const told = (await api.snapshot()).connectors.find(({ id }) => id === created.body.id);
    expect(told).toMatchObject({ credential: `${CANARY}2`, allowPrivateAddress: true });
  });

  it('can only be sealed with a key to seal it', async () => {
    const without = await startTestApi();
    try {
      const body = { name: 'a', provider: 'groq', credential: CANARY };
      const answer = await without.call('POST', '/connectors', { body });
      expect(answer.status).toBe(422);
      expect(answer.body.error).toMatchObject({
        code: 'key_encryption_key_required',
        message: expect.stringContaining('WEIGHBRIDGE_KEY_ENCRYPTION_KEY'),
      });
      expect(await without.db.selectFrom('connectors').selectAll().where('name', '=', 'a').execute()).toEqual(
        [],
      );
    } finally {
      await without.close();
    }
  });

  it('is not sent to another host without being given again', async () => {
    const { id } = await create({ credential: CANARY });
    const patch = (body: Json) => refusalOf(api.call('PATCH', `/connectors/${id}`, { body }));
    expect(await patch({ base_url: vendorUrl })).toEqual([422, 'credential_required', 'credential']);
    expect((await patch({ base_url: 'https://api.groq.com/openai/v2' }))[0]).toBe(200);
    expect((await patch({ base_url: vendorUrl, credential: 'sk-another' }))[0]).toBe(200);
  });

  it('moves to a new key-encryption key, and stays closed to who lacks that', async () => {
    const { id } = await create({ credential: CANARY });
    const next = randomBytes(32);
    const depsWith = (current: Buffer | undefined, previous: Buffer[] = []) => ({
      db: api.db,
      credentials: createCredentials({ env: {}, fileDirs: [], sealer: createSealer({ current, previous }) }),
      upstreamHosts: upstreamHosts('127.0.0.1'),
    });
    const credentialWith = async (...keys: Parameters<typeof depsWith>) =>
      (await usableConnectors(depsWith(...keys))).find((connector) => connector.id === id)?.credential;
    const sealed = await api.db
      .selectFrom('connectors')
      .select('id')
      .where('credential_sealed', 'is not', null)
      .execute();

    expect(await credentialWith(undefined)).toBeUndefined();
    expect(await credentialWith(next)).toBeUndefined();
    expect(await credentialWith(next, [KEK])).toBe(CANARY);
    // A start with the wrong key loses nothing.
    expect(await resealCredentials(depsWith(next), api.now)).toEqual({
      resealed: 0,
      unopened: sealed.length,
    });
    expect(await resealCredentials(depsWith(next, [KEK]), api.now)).toEqual({
      resealed: sealed.length,
      unopened: 0,
    });
    expect(await resealCredentials(depsWith(next, [KEK]), api.now)).toEqual({ resealed: 0, unopened: 0 });
    expect(await credentialWith(next)).toBe(CANARY);
    expect(await credentialWith(KEK)).toBeUndefined();
    const shown = await api.call('GET', `/connectors/${id}`);
    expect(shown.body).toMatchObject({
      credential_sealed: true,
      usable: false,
      unusable_reason: expect.stringContaining('key-encryption key'),
    });
    await resealCredentials(depsWith(KEK, [next]), api.now);
  });

  it('in a file that changed is told to the proxies, and once', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'weighbridge-secrets-'));
    const file = join(dir, 'vendor');
    await writeFile(file, 'sk-first');
    const sealer = createSealer({ current: undefined, previous: [] });
    const credentials = createCredentials({ env: {}, fileDirs: [dir], sealer });
    const deps = { db: api.db, credentials, upstreamHosts: upstreamHosts(''), now: () => api.now };
    const { id } = await create();
    await api.db
      .updateTable('connectors')
      .set({ credential_ref: `file:${file}` })
      .where('id', '=', id)
      .execute();

    const at = await revision();
    const first = await noticeChangedFiles(deps, await noticeChangedFiles(deps, undefined));
    expect(await revision()).toBe(at);
    await writeFile(file, 'sk-second');
    const second = await noticeChangedFiles(deps, first);
    await noticeChangedFiles(deps, second);
    expect(await revision()).toBe(at + 1n);
    expect(await auditOf(id)).toEqual(['connector.created', 'connector.credential_changed']);
    const told = (await usableConnectors(deps)).find((connector) => connector.id === id);
    expect(told?.credential).toBe('sk-second');
    await rm(dir, { recursive: true });
  });

  it('that was moved to another row does not open there', async () => {
    const [one, other] = await Promise.all([
      create({ credential: CANARY }),
      create({ credential: 'sk-other' }),
    ]);
    await sql`UPDATE connectors SET credential_sealed = (SELECT credential_sealed FROM connectors WHERE id = ${one.id})
              WHERE id = ${other.id}`.execute(api.db);
    expect((await api.call('GET', `/connectors/${other.id}`)).body).toMatchObject({ usable: false });
  });
});
