import { describe, expect, it } from 'vitest';
import { CANARY, ENVIRONMENT, refusalOf, useConnectorsApi } from '../../../test/connectorsApi.ts';
import type { Json } from '../../../test/testApi.ts';
import { applyEnvironmentConnectors } from './environmentConnectors.service.ts';
import { environmentConnectors } from './environmentConnectors.ts';

const connectors = useConnectorsApi();
const { auditOf, create, revision, uniqueName } = connectors;

const environments = async (): Promise<Json & { id: string }> => {
  const { body } = await connectors.api.call('GET', '/connectors?name_contains=env-openai');
  return (body.data as (Json & { id: string })[])[0] as Json & { id: string };
};

describe('a connector', () => {
  it('of a known provider needs only a name, and shows every field except its credential', async () => {
    const connector = await create({ name: ' groq ', credential: CANARY });
    expect(connector).toEqual({
      id: expect.stringMatching(/^con_/),
      name: 'groq',
      provider: 'groq',
      dialect: 'openai',
      base_url: 'https://api.groq.com/openai/v1',
      auth: { kind: 'key' },
      credential_ref: null,
      credential_sealed: true,
      credential_bound: null,
      credential_hosts: null,
      usable: true,
      unusable_reason: null,
      enabled: true,
      priority: 0,
      weight: 1,
      max_parallel: null,
      requests_per_minute: null,
      tokens_per_minute: null,
      connect_timeout_ms: null,
      first_byte_timeout_ms: null,
      chunk_timeout_ms: null,
      on_disconnect: null,
      chat: 'native',
      forward_headers: [],
      models: [],
      upstream_names: {},
      origin: 'operator',
      created_at: connectors.api.now.toISOString(),
      updated_at: connectors.api.now.toISOString(),
    });
    expect((await connectors.api.call('GET', `/connectors/${connector.id}`)).body).toEqual(connector);
    expect(await auditOf(connector.id)).toEqual(['connector.created']);
  });

  it.each([
    [{ provider: 'groq' }, 400, 'invalid_request', 'name'],
    [{ name: 'a' }, 400, 'invalid_request', 'provider'],
    [{ name: 'a', provider: 'groq', unknown: 1 }, 400, 'invalid_request', 'unknown'],
    [{ name: 'a', provider: 'groq', priority: 1.5 }, 400, 'invalid_request', 'priority'],
    [{ name: 'a', provider: 'groq', weight: 0 }, 400, 'invalid_request', 'weight'],
    [{ name: 'a', provider: 'groq', on_disconnect: 'stop' }, 400, 'invalid_request', 'on_disconnect'],
    [{ name: 'a', provider: 'groq', enabled: 'true' }, 400, 'invalid_request', 'enabled'],
    [{ name: 'a', provider: 'groq', dialect: 'grpc' }, 400, 'invalid_request', 'dialect'],
    [{ name: 'a', provider: 'groq', chat: 'translated' }, 400, 'invalid_request', 'chat'],
    [{ name: 'a', provider: 'groq', chat: 'compatible' }, 422, 'chat_invalid', 'chat'],
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
    [{ name: 'a', provider: 'groq', forward_headers: [''] }, 400, 'invalid_request', 'forward_headers.0'],
    [{ name: 'a', provider: 'groq', models: ['llama-*'] }, 422, 'models_invalid', 'models'],
    [{ name: 'a', provider: 'groq', models: ['openai/*'] }, 422, 'models_invalid', 'models'],
    [{ name: 'a', provider: 'groq', models: ['groq/a*b*c*d*e*f*g*h*i*j'] }, 422, 'models_invalid', 'models'],
    [
      { name: 'a', provider: 'groq', upstream_names: { 'openai/x': 'y' } },
      422,
      'upstream_names_invalid',
      'upstream_names',
    ],
  ])('rejects %j with %d %s', async (body, status, code, param) => {
    expect(await refusalOf(connectors.api.call('POST', '/connectors', { body }))).toEqual([
      status,
      code,
      param,
    ]);
  });

  it.each(['Authorization', 'cookie', 'X-Svc-User', 'cf-access-jwt-assertion', 'connection', 'x-*', 'a b'])(
    'does not forward %s',
    async (header) => {
      const body = { name: 'a', provider: 'groq', forward_headers: ['x-title', header] };
      expect(await refusalOf(connectors.api.call('POST', '/connectors', { body }))).toEqual([
        422,
        'forward_headers_invalid',
        'forward_headers',
      ]);
    },
  );

  it('forwards headers by their names in lower case, each once', async () => {
    const { forward_headers } = await create({ forward_headers: ['X-Title', 'x-title', 'x-acme-*'] });
    expect(forward_headers).toEqual(['x-title', 'x-acme-*']);
  });

  it('changes only the given fields, and nothing without a change', async () => {
    const { id, ...before } = await create({ credential_ref: 'env:VENDOR_KEY' });
    const at = await revision();
    expect((await connectors.api.call('PATCH', `/connectors/${id}`, { body: {} })).body).toEqual({
      id,
      ...before,
    });
    const same = {
      name: before.name,
      credential_ref: 'env:VENDOR_KEY',
      weight: 1,
      models: [],
      upstream_names: {},
      forward_headers: [],
    };
    expect((await connectors.api.call('PATCH', `/connectors/${id}`, { body: same })).body).toEqual({
      id,
      ...before,
    });
    expect(await revision()).toBe(at);

    const changes = {
      name: uniqueName(),
      enabled: false,
      priority: -1,
      weight: 3,
      max_parallel: 7,
      requests_per_minute: 60,
      tokens_per_minute: 90_000,
      first_byte_timeout_ms: 90_000,
      models: ['groq/llama-*'],
      upstream_names: { 'groq/llama-3': 'deployment-1' },
      forward_headers: ['x-title', 'x-acme-*'],
    };
    connectors.api.now = new Date(connectors.api.now.getTime() + 1_000);
    const { body } = await connectors.api.call('PATCH', `/connectors/${id}`, { body: changes });
    expect(body).toEqual({ ...before, id, ...changes, updated_at: connectors.api.now.toISOString() });
    const cleared = await connectors.api.call('PATCH', `/connectors/${id}`, {
      body: { max_parallel: null, credential_ref: null },
    });
    expect(cleared.body).toMatchObject({ max_parallel: null, credential_ref: null, usable: false });
    expect(await revision()).toBe(at + 2n);
    expect(
      await refusalOf(connectors.api.call('PATCH', `/connectors/${id}`, { body: { provider: 'openai' } })),
    ).toEqual([400, 'invalid_request', 'provider']);
  });

  it('that is unusable shows the reason, and is not sent to proxies', async () => {
    const gone = await create({ credential_ref: 'env:NOT_THERE' });
    expect(gone).toMatchObject({ usable: false, unusable_reason: expect.stringContaining('env:NOT_THERE') });
    const here = await create({ credential_ref: 'env:VENDOR_KEY' });
    expect(here).toMatchObject({ usable: true, unusable_reason: null });
    const sent = (await connectors.api.snapshot()).connectors;
    expect(sent.find(({ id }) => id === gone.id)).toBeUndefined();
    expect(sent.find(({ id }) => id === here.id)).toMatchObject({ credential: 'sk-by-reference' });
  });

  it('loses its credential on deletion; its row stays for the ledger, and its name is free', async () => {
    const { id, name } = await create({ credential: CANARY });
    expect((await connectors.api.call('DELETE', `/connectors/${id}`)).status).toBe(200);
    for (const method of ['GET', 'PATCH', 'DELETE'] as const) {
      const body = method === 'PATCH' ? { nonsense: 1 } : undefined;
      expect(await refusalOf(connectors.api.call(method, `/connectors/${id}`, { body }))).toEqual([
        404,
        'connector_not_found',
        'connector_id',
      ]);
    }
    const row = await connectors.api.db
      .selectFrom('connectors')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect(row).toMatchObject({ name, provider: 'groq', credential_sealed: null, credential_ref: null });
    expect((await create({ name })).name).toBe(name);
    expect((await connectors.api.snapshot()).connectors.some((connector) => connector.id === id)).toBe(false);
  });

  it('is listed in pages, by provider, by name and by whether it is enabled', async () => {
    const ids: unknown[] = [];
    for (let index = 0; index < 5; index++) {
      const fields = { provider: 'mistral', name: `Page_${index} 100%`, enabled: index % 2 === 0 };
      ids.unshift((await create(fields)).id);
    }
    const list = async (query: string) => {
      const { body } = await connectors.api.call('GET', `/connectors?${query}`);
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
    expect(await refusalOf(connectors.api.call('GET', '/connectors?page_token=nonsense'))).toEqual([
      400,
      'invalid_page_token',
      'page_token',
    ]);
    expect(await refusalOf(connectors.api.call('GET', '/connectors?enabled=yes'))).toEqual([
      400,
      'invalid_request',
      'enabled',
    ]);
  });

  it('keeps both of two concurrent changes, and gives a name to only one of two requests', async () => {
    const { id } = await create();
    await Promise.all([
      connectors.api.call('PATCH', `/connectors/${id}`, { body: { priority: 5 } }),
      connectors.api.call('PATCH', `/connectors/${id}`, { body: { weight: 9 } }),
      connectors.api.call('PATCH', `/connectors/${id}`, { body: { models: ['groq/*'] } }),
    ]);
    expect((await connectors.api.call('GET', `/connectors/${id}`)).body).toMatchObject({
      priority: 5,
      weight: 9,
      models: ['groq/*'],
    });

    const name = uniqueName();
    const others = await Promise.all([create(), create(), create()]);
    const responses = await Promise.all([
      connectors.api.call('POST', '/connectors', { body: { name, provider: 'groq' } }),
      ...others.map((other) => connectors.api.call('PATCH', `/connectors/${other.id}`, { body: { name } })),
    ]);
    expect(responses.map(({ status }) => status).filter((status) => status < 300)).toHaveLength(1);
    expect(responses.filter(({ status }) => status === 409)).toHaveLength(3);
  });
});

it('is unusable without the credential that its vendor requires; another address may need none', async () => {
  const unusable = await create({ name: uniqueName() });
  expect(unusable).toMatchObject({
    auth: { kind: 'none' },
    usable: false,
    unusable_reason:
      'It has no credential, which api.groq.com requires. Set its credential or credential_ref.',
  });
  const path = `/connectors/${unusable.id}`;
  const { body } = await connectors.api.call('PATCH', path, { body: { credential: CANARY } });
  expect(body).toMatchObject({ usable: true, unusable_reason: null });
  expect(await create({ name: uniqueName(), base_url: 'https://gateway.test/v1' })).toMatchObject({
    auth: { kind: 'none' },
    usable: true,
  });
});

describe('a connector of the environment', () => {
  it('keeps the fields of the environment, and accepts changes of the others', async () => {
    const { id, base_url } = await environments();
    for (const body of [
      { base_url: 'https://evil.test' },
      { credential: 'x' },
      { name: 'mine' },
      { dialect: 'anthropic' },
    ]) {
      expect(
        (await refusalOf(connectors.api.call('PATCH', `/connectors/${id}`, { body }))).slice(0, 2),
      ).toEqual([409, 'connector_of_environment']);
    }
    expect((await refusalOf(connectors.api.call('DELETE', `/connectors/${id}`)))[1]).toBe(
      'connector_of_environment',
    );
    const changes = { enabled: false, priority: 3, models: ['openai/gpt-*'], base_url };
    expect((await connectors.api.call('PATCH', `/connectors/${id}`, { body: changes })).body).toMatchObject(
      changes,
    );
    // A start does not undo it, be the key there all the time, gone for a while, or another one.
    for (const env of [ENVIRONMENT, {}, { ...ENVIRONMENT, OPENAI_BASE_URL: 'https://proxy.test/v1' }]) {
      await applyEnvironmentConnectors(
        connectors.api.db,
        environmentConnectors(env, undefined),
        connectors.api.now,
      );
      expect(await environments()).toMatchObject({
        id,
        enabled: false,
        priority: 3,
        usable: 'OPENAI_API_KEY' in env,
      });
    }
    expect((await environments()).base_url).toBe('https://proxy.test/v1');
    await connectors.api.call('PATCH', `/connectors/${id}`, { body: { enabled: true, models: [] } });
  });

  it('is disabled while the environment lacks it', async () => {
    const { id } = await environments();
    const start = (env: Record<string, string>) =>
      applyEnvironmentConnectors(
        connectors.api.db,
        environmentConnectors(env, undefined),
        connectors.api.now,
      );
    const listed = async (enabled: boolean) => {
      const path = `/connectors?name_contains=env-openai&enabled=${enabled}`;
      return ((await connectors.api.call('GET', path)).body.data as { id: string }[]).map((one) => one.id);
    };
    await start({});
    expect(await environments()).toMatchObject({
      enabled: false,
      usable: false,
      unusable_reason: 'The environment of the control plane no longer defines it.',
    });
    expect([await listed(true), await listed(false)]).toEqual([[], [id]]);
    await start(ENVIRONMENT);
    expect(await environments()).toMatchObject({ enabled: true, usable: true });
    expect([await listed(true), await listed(false)]).toEqual([[id], []]);
  });
});
