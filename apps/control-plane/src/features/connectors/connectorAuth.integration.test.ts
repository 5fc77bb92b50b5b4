import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Route } from '@weighbridge/contracts';
import { sql } from 'kysely';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KEY_ENCRYPTION_KEY, refusalOf, useConnectorsApi } from '../../../test/connectorsApi.ts';
import { type Json, startTestApi } from '../../../test/testApi.ts';
import { createSealer } from '../../sealing/envelope.ts';
import { credentialHosts } from './credentialHosts.ts';
import { createCredentials } from './credentials.ts';
import { resealCredentials } from './resealCredentials.service.ts';
import { upstreamHosts } from './upstreamHosts.ts';

const connectors = useConnectorsApi();
const { auditOf, create, uniqueName } = connectors;

const SECRET = 'canary client secret 8Zq2';
const OAUTH = {
  kind: 'oauth',
  token_url: 'https://id.acme.example/token',
  client_id: 'gateway',
  client_secret: SECRET,
};
const call = (method: string, path: string, body?: Json) =>
  connectors.api.call(method as 'GET', path, body && { body });
const patch = (id: string, body: Json) => call('PATCH', `/connectors/${id}`, body);
const sent = async (id: unknown) =>
  (await connectors.api.snapshot()).connectors.find((connector) => connector.id === id);

describe('the auth of a connector', () => {
  it('is key or none by its credential, and oauth shows all but the secret', async () => {
    expect((await create()).auth).toEqual({ kind: 'none' });
    expect((await create({ auth: { kind: 'none' } })).auth).toEqual({ kind: 'none' });
    expect((await create({ credential: 'sk-acme' })).auth).toEqual({ kind: 'key' });
    expect((await create({ credential_ref: 'env:VENDOR_KEY', auth: { kind: 'key' } })).auth).toEqual({
      kind: 'key',
    });
    const fields = { ...OAUTH, scope: 'chat read', audience: 'urn:api', client_authentication: 'basic' };
    const made = await create({ auth: fields });
    expect(made).toMatchObject({ usable: true, credential_sealed: false, credential_ref: null });
    expect(made.auth).toEqual({ ...fields, client_secret: 'sealed' });
    expect(await sent(made.id)).toMatchObject({
      credential: '',
      identity: {
        case: 'oauth',
        value: {
          tokenUrl: OAUTH.token_url,
          clientId: 'gateway',
          clientSecret: SECRET,
          scope: 'chat read',
          audience: 'urn:api',
          basicAuthentication: true,
          allowPrivateAddress: false,
        },
      },
    });
    expect(await auditOf(made.id)).toEqual(['connector.created']);
  });

  it.each<[Json, string, string]>([
    [{ kind: 'oauth' }, 'auth_invalid', 'auth.token_url'],
    [{ ...OAUTH, client_id: undefined }, 'auth_invalid', 'auth.client_id'],
    [{ ...OAUTH, client_secret: undefined }, 'auth_invalid', 'auth.client_secret'],
    [{ kind: 'none', client_id: 'a' }, 'auth_invalid', 'auth.client_id'],
    [{ kind: 'key', scope: 'a' }, 'auth_invalid', 'auth.scope'],
    [{ kind: 'key' }, 'credential_required', 'credential'],
    [{ ...OAUTH, token_url: 'http://id.acme.example/token' }, 'auth_invalid', 'auth.token_url'],
    [{ ...OAUTH, token_url: 'https://10.0.0.1/token' }, 'auth_invalid', 'auth.token_url'],
    [{ ...OAUTH, token_url: 'https://169.254.169.254/latest' }, 'auth_invalid', 'auth.token_url'],
    [{ ...OAUTH, token_url: 'https://a:b@id.acme.example/' }, 'auth_invalid', 'auth.token_url'],
    [{ ...OAUTH, client_id: 'a\nb' }, 'auth_invalid', 'auth.client_id'],
    [{ ...OAUTH, scope: 'a\tb' }, 'auth_invalid', 'auth.scope'],
    [{ ...OAUTH, scope: ' a' }, 'auth_invalid', 'auth.scope'],
    [{ ...OAUTH, client_secret: `${SECRET}\n` }, 'auth_invalid', 'auth.client_secret'],
    [{ ...OAUTH, client_secret: 'sealed' }, 'auth_invalid', 'auth.client_secret'],
    [{ ...OAUTH, client_secret: 'env:DATABASE_URL' }, 'credential_ref_invalid', 'auth.client_secret'],
    [{ ...OAUTH, client_secret: 'file:/etc/passwd' }, 'credential_ref_invalid', 'auth.client_secret'],
    [{ ...OAUTH, client_secret: 'env:OPENAI_API_KEY' }, 'credential_host_not_allowed', 'auth.client_secret'],
  ])('is refused if it cannot work: %j', async (auth, code, param) => {
    const response = call('POST', '/connectors', { name: uniqueName(), provider: 'groq', auth });
    expect(await refusalOf(response)).toEqual([422, code, param]);
    expect(JSON.stringify((await response).body)).not.toContain(SECRET);
  });

  it('is a 400 of the wrong shape, and a 422 beside a credential', async () => {
    const refused = (fields: Json) =>
      refusalOf(call('POST', '/connectors', { name: uniqueName(), provider: 'groq', ...fields }));
    expect(await refused({ auth: { kind: 'saml' } })).toEqual([400, 'invalid_request', 'auth.kind']);
    expect(await refused({ auth: { ...OAUTH, more: 1 } })).toEqual([400, 'invalid_request', 'auth.more']);
    expect(await refused({ auth: null })).toEqual([400, 'invalid_request', 'auth']);
    for (const auth of [OAUTH, { kind: 'none' }]) {
      expect(await refused({ auth, credential: 'sk-a' })).toEqual([
        422,
        'credential_ambiguous',
        'credential',
      ]);
      const byRef = { auth, credential_ref: 'env:VENDOR_KEY' };
      expect(await refused(byRef)).toEqual([422, 'credential_ambiguous', 'credential_ref']);
    }
  });

  it('changes from one kind to another, and what it no longer needs is erased', async () => {
    const { id } = await create({ credential: 'sk-acme' });
    const row = async () =>
      await connectors.api.db
        .selectFrom('connectors')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
    expect((await patch(id, { auth: OAUTH })).body).toMatchObject({
      auth: { kind: 'oauth' },
      credential_sealed: false,
    });
    expect(await refusalOf(patch(id, { credential: 'sk-acme' }))).toEqual([
      422,
      'credential_ambiguous',
      'credential',
    ]);
    expect((await row()).credential_kek_id).toBeNull();
    expect(await refusalOf(patch(id, { auth: { kind: 'key' } }))).toEqual([
      422,
      'credential_required',
      'credential',
    ]);
    const keyed = await patch(id, { auth: { kind: 'key' }, credential: 'sk-new' });
    expect(keyed.body).toMatchObject({ auth: { kind: 'key' }, credential_sealed: true });
    expect(await row()).toMatchObject({ auth: null, auth_sealed: null, auth_kek_id: null });
    expect((await sent(id))?.credential).toBe('sk-new');
    expect((await patch(id, { auth: { kind: 'key' } })).body.updated_at).toBe(keyed.body.updated_at);
    expect((await patch(id, { auth: { kind: 'none' } })).body).toMatchObject({
      auth: { kind: 'none' },
      credential_sealed: false,
      // Its vendor requires one.
      usable: false,
    });
    await patch(id, { auth: OAUTH });
    await call('DELETE', `/connectors/${id}`);
    expect(await row()).toMatchObject({ auth: null, auth_sealed: null, auth_kek_id: null });
  });

  it('keeps its sealed secret for `sealed` and for the same one, and records no change then', async () => {
    const { id, updated_at } = await create({ auth: OAUTH });
    const before = await auditOf(id);
    for (const client_secret of ['sealed', SECRET]) {
      expect((await patch(id, { auth: { ...OAUTH, client_secret } })).body.updated_at).toBe(updated_at);
    }
    expect(await auditOf(id)).toEqual(before);
    expect(
      (await patch(id, { auth: { ...OAUTH, client_secret: 'sealed', scope: 'more' } })).body.auth,
    ).toMatchObject({
      scope: 'more',
    });
    expect((await sent(id))?.identity.value).toMatchObject({ clientSecret: SECRET, scope: 'more' });
  });

  it('never sends a sealed secret, or what it buys, to another host unless it is given again', async () => {
    const { id } = await create({ auth: OAUTH });
    const elsewhere = 'https://evil.example';
    const refusal = [422, 'credential_required', 'auth.client_secret'];
    expect(await refusalOf(patch(id, { base_url: `${elsewhere}/v1` }))).toEqual(refusal);
    const moved = { ...OAUTH, token_url: `${elsewhere}/token`, client_secret: 'sealed' };
    expect(await refusalOf(patch(id, { auth: moved }))).toEqual(refusal);
    expect(
      await refusalOf(patch(id, { auth: { ...moved, token_url: OAUTH.token_url }, base_url: elsewhere })),
    ).toEqual(refusal);
    expect((await sent(id))?.baseUrl).toBe('https://api.groq.com/openai/v1');
    const given = await patch(id, { base_url: elsewhere, auth: { ...moved, client_secret: SECRET } });
    expect([given.status, given.body.usable]).toEqual([200, true]);
  });

  it('binds a referenced secret to the hosts of its tokens too', async () => {
    const api = await startTestApi({
      CREDENTIAL_REF_HOSTS: 'env:ACME_SECRET=id.acme.example,api.groq.com',
      ACME_SECRET: 'of-acme',
    });
    try {
      const auth = { ...OAUTH, client_secret: 'env:ACME_SECRET' };
      const post = (fields: Json) =>
        api.call('POST', '/connectors', { body: { name: 'a', provider: 'groq', auth, ...fields } });
      const refusal = [422, 'credential_host_not_allowed', 'auth.client_secret'];
      expect(await refusalOf(post({ base_url: 'https://evil.example' }))).toEqual(refusal);
      expect(await refusalOf(post({ auth: { ...auth, token_url: 'https://evil.example/t' } }))).toEqual(
        refusal,
      );
      const made = await post({});
      expect(made.body).toMatchObject({ auth, usable: true, credential_bound: true });
      const path = `/connectors/${made.body.id}`;
      expect(
        await refusalOf(api.call('PATCH', path, { body: { base_url: 'https://evil.example' } })),
      ).toEqual(refusal);
      // As settings of an earlier start allowed it.
      await api.db.updateTable('connectors').set({ base_url: 'https://evil.example' }).execute();
      expect((await api.call('GET', path)).body).toMatchObject({
        usable: false,
        unusable_reason: expect.stringContaining('CREDENTIAL_REF_HOSTS'),
      });
    } finally {
      await api.close();
    }
  });

  it('is sealed for its row, under the current key, and never shown', async () => {
    const { id } = await create({ auth: OAUTH });
    const other = await create({ auth: { ...OAUTH, client_secret: 'another' } });
    const { rows } = await sql<{ text: string }>`
      SELECT to_jsonb(connectors)::text AS text FROM connectors UNION ALL
      SELECT to_jsonb(audit_log)::text FROM audit_log`.execute(connectors.api.db);
    const shown = [
      connectors.api.log(),
      ...rows.map(({ text }) => text),
      JSON.stringify((await call('GET', '/connectors')).body),
    ].join('\n');
    for (const form of ['utf8', 'hex', 'base64'] as const) {
      expect(shown.includes(Buffer.from(SECRET).toString(form).slice(0, 24)), form).toBe(false);
    }
    const next = randomBytes(32);
    const deps = (current: Buffer, previous: Buffer[]) => ({
      db: connectors.api.db,
      credentials: createCredentials({
        env: {},
        fileDirs: [],
        sealer: createSealer({ current, previous }),
        hosts: credentialHosts(undefined, {}),
      }),
      upstreamHosts: upstreamHosts(''),
    });
    expect(
      (await resealCredentials(deps(next, [KEY_ENCRYPTION_KEY]), connectors.api.now)).resealed,
    ).toBeGreaterThan(1);
    expect((await call('GET', `/connectors/${id}`)).body).toMatchObject({ usable: false });
    await resealCredentials(deps(KEY_ENCRYPTION_KEY, [next]), connectors.api.now);
    expect((await sent(id))?.identity.value).toMatchObject({ clientSecret: SECRET });
    // Copied to another row, it does not open.
    const { auth_sealed, auth_kek_id } = await connectors.api.db
      .selectFrom('connectors')
      .select(['auth_sealed', 'auth_kek_id'])
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    await connectors.api.db
      .updateTable('connectors')
      .set({ auth_sealed, auth_kek_id })
      .where('id', '=', other.id)
      .execute();
    expect((await call('GET', `/connectors/${other.id}`)).body).toMatchObject({ usable: false });
  });

  it('cannot be set on a connector of the environment', async () => {
    const { body } = await call('GET', '/connectors?name_contains=env-openai');
    const [{ id } = { id: '' }] = body.data as { id: string }[];
    expect(await refusalOf(patch(id, { auth: OAUTH }))).toEqual([409, 'connector_of_environment', 'auth']);
  });
});

it('a test gets a token first, and says what failed without showing it', async () => {
  const token = 'at-canary-token-5521';
  let tokenStatus = 200;
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(`${request.url} ${request.headers.authorization}`);
    const isToken = request.url === '/token';
    response.writeHead(isToken ? tokenStatus : 200, { 'content-type': 'application/json' });
    const issued = { access_token: token, token_type: 'bearer', expires_in: 60 };
    response.end(
      JSON.stringify(isToken && tokenStatus === 200 ? issued : { error: 'invalid_client', data: [] }),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = await startTestApi({ ALLOWED_UPSTREAM_HOSTS: host, ACME_SECRET: SECRET.replaceAll(' ', '-') });
  try {
    const auth = { ...OAUTH, token_url: `http://${host}/token`, client_secret: 'env:ACME_SECRET' };
    const base_url = `http://${host}/v1`;
    const { id } = (
      await api.call('POST', '/connectors', { body: { name: 'a', provider: 'groq', base_url, auth } })
    ).body;
    const test = async () => (await api.call('POST', `/connectors/${id}/test`)).body;
    expect(await test()).toMatchObject({ ok: true, status: 200 });
    expect(seen).toEqual(['/token undefined', `/v1/models Bearer ${token}`]);
    tokenStatus = 400;
    expect(await test()).toMatchObject({
      ok: false,
      status: null,
      message: expect.stringContaining('invalid_client'),
    });
    expect(api.log()).not.toContain(token);
  } finally {
    await api.close();
  }
});

describe('the auth of the kind aws', () => {
  const KEYS = { access_key_id: 'AKIDEXAMPLE00001', secret_access_key: 'canary aws secret' };
  const AWS = { kind: 'aws', region: 'eu-central-1' };
  const bedrock = (fields: Json = {}) => create({ provider: 'bedrock', auth: AWS, ...fields });

  it("is Claude on Bedrock in its region, by the proxies' own identity unless keys or a role are given", async () => {
    const made = await bedrock();
    expect(made).toMatchObject({
      dialect: 'anthropic',
      base_url: 'https://bedrock-runtime.eu-central-1.amazonaws.com',
      auth: AWS,
      usable: true,
      credential_bound: null,
    });
    const tested = await call('POST', `/connectors/${made.id}/test`);
    expect(tested.body).toMatchObject({
      ok: false,
      message: expect.stringContaining("proxies' own identity"),
    });
    const auth = {
      ...AWS,
      ...KEYS,
      session_token: 'env:VENDOR_KEY',
      role_arn: 'arn:aws:iam::123456789012:role/models',
      external_id: 'ours',
    };
    const keyed = await bedrock({ auth });
    expect(keyed.auth).toEqual({ ...auth, secret_access_key: 'sealed' });
    expect(await sent(keyed.id)).toMatchObject({
      credential: '',
      identity: {
        case: 'aws',
        value: {
          region: 'eu-central-1',
          accessKeyId: KEYS.access_key_id,
          secretAccessKey: KEYS.secret_access_key,
          sessionToken: 'sk-by-reference',
          roleArn: auth.role_arn,
          externalId: 'ours',
        },
      },
    });
    const changed = { ...auth, secret_access_key: 'sealed', session_token: 'another canary' };
    expect((await patch(keyed.id, { auth: changed })).body.auth).toMatchObject({ session_token: 'sealed' });
    expect((await sent(keyed.id))?.identity.value).toMatchObject({
      secretAccessKey: KEYS.secret_access_key,
      sessionToken: 'another canary',
    });
    const moved = patch(keyed.id, { base_url: 'https://evil.example' });
    expect(await refusalOf(moved)).toEqual([422, 'credential_required', 'auth.secret_access_key']);
  });

  it.each<[Json, string, string]>([
    [{ region: undefined }, 'auth_invalid', 'auth.region'],
    [{ region: 'eu-central-1.evil.example/' }, 'auth_invalid', 'auth.region'],
    [{ access_key_id: KEYS.access_key_id }, 'auth_invalid', 'auth.secret_access_key'],
    [{ secret_access_key: 'a' }, 'auth_invalid', 'auth.access_key_id'],
    [{ session_token: 'a' }, 'auth_invalid', 'auth.access_key_id'],
    [{ external_id: 'a' }, 'auth_invalid', 'auth.role_arn'],
    [{ role_arn: 'arn:aws:s3:::bucket' }, 'auth_invalid', 'auth.role_arn'],
    [{ client_id: 'a' }, 'auth_invalid', 'auth.client_id'],
  ])('is refused if it cannot work: %j', async (fields, code, param) => {
    const body = { name: uniqueName(), provider: 'bedrock', auth: { ...AWS, ...fields } };
    expect(await refusalOf(call('POST', '/connectors', body))).toEqual([422, code, param]);
  });

  it('has the dialect of Anthropic', async () => {
    const body = { name: uniqueName(), provider: 'bedrock', dialect: 'openai', auth: AWS };
    expect(await refusalOf(call('POST', '/connectors', body))).toEqual([422, 'dialect_invalid', 'dialect']);
  });
});

it.each(['vllm', 'sglang', 'ollama', 'tgi'])(
  'a server of models in the own network needs an address and nothing else: %s',
  async (provider) => {
    const base_url = 'https://models.acme.example/v1';
    const made = await create({ provider, base_url, auth: { kind: 'none' } });
    expect(made).toMatchObject({ dialect: 'openai', auth: { kind: 'none' }, usable: true });
    const body = { name: uniqueName(), provider, auth: { kind: 'none' } };
    expect(await refusalOf(call('POST', '/connectors', body))).toEqual([
      422,
      'base_url_required',
      'base_url',
    ]);
    const routes = (await sent(made.id))?.routes ?? [];
    expect([routes.includes(Route.CHAT_COMPLETIONS), routes.includes(Route.RESPONSES)]).toEqual([
      true,
      provider === 'vllm',
    ]);
  },
);

describe('the auth of the kind azure', () => {
  const APP = {
    tenant_id: '72f988bf-0000-4000-8000-2d7cd011db47',
    client_id: 'app',
    client_secret: 'canary azure secret',
  };
  const base_url = 'https://acme.openai.azure.com/openai/v1';
  const azure = (fields: Json = {}) => ({ provider: 'azure', base_url, auth: { kind: 'azure' }, ...fields });

  it.each([
    [base_url, 'openai'],
    ['https://acme.services.ai.azure.com/anthropic/v1', 'anthropic'],
  ])("is by the proxies' own identity unless an application is given: %s", async (url, dialect) => {
    const made = await create(azure({ base_url: url }));
    expect(made).toMatchObject({ dialect, base_url: url, auth: { kind: 'azure' }, usable: true });
    expect(await sent(made.id)).toMatchObject({
      credential: '',
      identity: { case: 'azure', value: { tenantId: '', clientId: '', clientSecret: '', scope: '' } },
    });
    const tested = await call('POST', `/connectors/${made.id}/test`);
    expect(tested.body).toMatchObject({
      ok: false,
      message: expect.stringContaining("proxies' own identity"),
    });
  });

  it("sends tokens and proofs of the proxies' own identity to Azure alone", async () => {
    const refused = (fields: Json) =>
      refusalOf(call('POST', '/connectors', { name: uniqueName(), ...azure(fields) }));
    for (const host of [
      'evil.example',
      'openai.azure.com.evil.example',
      'evil.westeurope.cloudapp.azure.com',
      'evil-openai.azure.com',
    ]) {
      const url = `https://${host}/openai/v1`;
      expect(await refused({ base_url: url })).toEqual([422, 'base_url_invalid', 'base_url']);
      // With its own secret, it may be a gateway.
      await create(azure({ base_url: url, auth: { kind: 'azure', ...APP } }));
    }
    const auth = { kind: 'azure', client_id: 'b', authority_host: 'https://login.evil.example' };
    expect(await refused({ auth })).toEqual([422, 'auth_invalid', 'auth.authority_host']);
    const national = {
      auth: { ...auth, authority_host: 'https://login.microsoftonline.us' },
      base_url: 'https://acme.openai.azure.us/openai/v1',
    };
    const { id } = await create(azure(national));
    expect(await refusalOf(patch(id, { base_url: 'https://evil.example' }))).toEqual([
      422,
      'base_url_invalid',
      'base_url',
    ]);
  });

  it('has a secret that is sealed, and never goes to another authority or resource', async () => {
    const made = await create(azure({ auth: { kind: 'azure', ...APP } }));
    expect(made.auth).toEqual({ kind: 'azure', ...APP, client_secret: 'sealed' });
    expect((await sent(made.id))?.identity.value).toMatchObject({
      tenantId: APP.tenant_id,
      clientId: 'app',
      clientSecret: APP.client_secret,
      allowPrivateAddress: false,
    });
    const kept = { kind: 'azure', ...APP, client_secret: 'sealed' };
    const refusal = [422, 'credential_required', 'auth.client_secret'];
    expect(await refusalOf(patch(made.id, { base_url: 'https://evil.example/openai/v1' }))).toEqual(refusal);
    const moved = { ...kept, authority_host: 'https://evil.example' };
    expect(await refusalOf(patch(made.id, { auth: moved }))).toEqual(refusal);
    expect((await patch(made.id, { auth: kept })).body.updated_at).toBe(made.updated_at);
  });

  it.each<[Json, string, string]>([
    [{ client_secret: 'a' }, 'auth_invalid', 'auth.tenant_id'],
    [{ client_secret: 'a', tenant_id: 'b' }, 'auth_invalid', 'auth.client_id'],
    [{ tenant_id: '../common' }, 'auth_invalid', 'auth.tenant_id'],
    [{ scope: 'https://vault.azure.net/read' }, 'auth_invalid', 'auth.scope'],
    [{ scope: 'https://a/.default https://b/.default' }, 'auth_invalid', 'auth.scope'],
    [{ authority_host: 'http://login.example' }, 'auth_invalid', 'auth.authority_host'],
    [{ authority_host: 'https://169.254.169.254' }, 'auth_invalid', 'auth.authority_host'],
    [{ token_url: 'https://login.example' }, 'auth_invalid', 'auth.token_url'],
    [{ region: 'westeurope' }, 'auth_invalid', 'auth.region'],
  ])('is refused if it cannot work: %j', async (fields, code, param) => {
    const body = { name: uniqueName(), ...azure({ auth: { kind: 'azure', ...fields } }) };
    expect(await refusalOf(call('POST', '/connectors', body))).toEqual([422, code, param]);
  });
});
