import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { refusalOf, useConnectorsApi } from '../../../test/connectorsApi.ts';
import { type Json, startTestApi } from '../../../test/testApi.ts';

const connectors = useConnectorsApi();
const { uniqueName } = connectors;

const KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();
const account = (fields: Json = {}) =>
  JSON.stringify(
    {
      type: 'service_account',
      project_id: 'acme-models',
      private_key: KEY,
      client_email: 'a@acme-models.iam.gserviceaccount.com',
      ...fields,
    },
    null,
    2,
  );
const call = (method: string, path: string, body?: Json) =>
  connectors.api.call(method as 'GET', path, body && { body });
const add = (auth: Json, fields: Json = {}) =>
  call('POST', '/connectors', { name: uniqueName(), provider: 'vertex', auth, ...fields });
const sent = async (id: unknown) =>
  (await connectors.api.snapshot()).connectors.find((connector) => connector.id === id);

describe('an account at Google Cloud', () => {
  it.each<[string | undefined, string]>([
    [undefined, 'https://aiplatform.googleapis.com/v1'],
    ['global', 'https://aiplatform.googleapis.com/v1'],
    ['eu', 'https://aiplatform.eu.rep.googleapis.com/v1'],
    ['europe-west1', 'https://europe-west1-aiplatform.googleapis.com/v1'],
  ])('in the location %s has its address', async (location, url) => {
    const auth = { kind: 'google', project: 'acme-models', ...(location && { location }) };
    const { status, body } = await add(auth);
    expect([status, body]).toMatchObject([201, { base_url: url, auth, usable: true }]);
    expect(await sent(body.id)).toMatchObject({
      credential: '',
      identity: { case: 'google', value: { project: 'acme-models', location: location ?? 'global' } },
    });
  });

  it('has a key that is sealed, and goes to proxies alone', async () => {
    const { body } = await add({ kind: 'google', credentials: account() });
    expect(body).toMatchObject({ auth: { kind: 'google', credentials: 'sealed' }, usable: true });
    expect(await sent(body.id)).toMatchObject({
      identity: { case: 'google', value: { credentials: account(), allowPrivateAddress: false } },
    });
    const path = `/connectors/${body.id}`;
    const kept = { kind: 'google', credentials: 'sealed', location: 'us-east5' };
    expect((await call('PATCH', path, { auth: kept })).body.auth).toEqual(kept);
    expect(await refusalOf(call('PATCH', path, { base_url: 'https://evil.example/v1' }))).toEqual([
      422,
      'credential_required',
      'auth.credentials',
    ]);
    const shown = [
      connectors.api.log(),
      JSON.stringify((await call('GET', '/connectors')).body),
      JSON.stringify((await call('GET', '/audit')).body),
      JSON.stringify(await connectors.api.db.selectFrom('connectors').selectAll().execute()),
    ].join('\n');
    expect(shown).not.toContain('PRIVATE KEY');
    expect(shown).not.toContain(KEY.slice(100, 140));
  });

  it('has a key from the environment, in several lines', async () => {
    const api = await startTestApi({ ACME_ACCOUNT: account(), ACME_TEXT: 'canary' });
    try {
      const made = async (ref: string) => {
        const auth = { kind: 'google', credentials: ref };
        const { body } = await api.call('POST', '/connectors', {
          body: { name: ref, provider: 'vertex', auth },
        });
        return body;
      };
      expect(await made('env:ACME_ACCOUNT')).toMatchObject({
        usable: true,
        auth: { credentials: 'env:ACME_ACCOUNT' },
      });
      const wrong = await made('env:ACME_TEXT');
      expect(wrong).toMatchObject({ usable: false, unusable_reason: expect.stringContaining('ACME_TEXT') });
      expect(wrong.unusable_reason).not.toContain('canary');
    } finally {
      await api.close();
    }
  });

  it.each<[Json, Json, string, string]>([
    [{ project: 'a/../b' }, {}, 'auth_invalid', 'auth.project'],
    [{ project: 'acme?x=1' }, {}, 'auth_invalid', 'auth.project'],
    [{ location: 'evil.example/x' }, {}, 'auth_invalid', 'auth.location'],
    [{ location: 'europe-west1.evil' }, {}, 'auth_invalid', 'auth.location'],
    [{ credentials: 'canary' }, {}, 'auth_invalid', 'auth.credentials'],
    [{ credentials: '{"type":"external_account","canary":1}' }, {}, 'auth_invalid', 'auth.credentials'],
    [{ credentials: account({ private_key: 'canary' }) }, {}, 'auth_invalid', 'auth.credentials'],
    [
      { credentials: account({ token_uri: 'http://169.254.169.254/canary' }) },
      {},
      'auth_invalid',
      'auth.credentials',
    ],
    [{ credentials: 'env:DATABASE_URL' }, {}, 'credential_ref_invalid', 'auth.credentials'],
    [{ region: 'eu-central-1' }, {}, 'auth_invalid', 'auth.region'],
    [{}, { dialect: 'anthropic' }, 'dialect_invalid', 'dialect'],
    // The pod's token would be the operator's.
    [{}, { base_url: 'https://evil.example/v1' }, 'base_url_invalid', 'base_url'],
    [{}, { base_url: 'https://googleapis.com.evil.example/v1' }, 'base_url_invalid', 'base_url'],
    [{}, { base_url: 'http://aiplatform.googleapis.com/v1' }, 'base_url_invalid', 'base_url'],
  ])('is refused if it cannot work, or would lead elsewhere: %j %j', async (auth, fields, code, param) => {
    const response = add({ kind: 'google', ...auth }, fields);
    expect(await refusalOf(response)).toEqual([422, code, param]);
    expect(JSON.stringify((await response).body)).not.toContain('canary');
  });

  it('cannot move away from Google by a later change', async () => {
    const { body } = await add({ kind: 'google' });
    const moved = call('PATCH', `/connectors/${body.id}`, { base_url: 'https://evil.example/v1' });
    expect(await refusalOf(moved)).toEqual([422, 'base_url_invalid', 'base_url']);
    await connectors.api.db
      .updateTable('connectors')
      .set({ base_url: 'https://evil.example/v1' })
      .where('id', '=', String(body.id))
      .execute();
    expect((await call('GET', `/connectors/${body.id}`)).body).toMatchObject({
      usable: false,
      unusable_reason: expect.stringContaining("Google's hosts"),
    });
  });

  it('is explained by the API that each model has', async () => {
    const { body } = await add({ kind: 'google' });
    for (const [name, route] of [
      ['claude-sonnet-4-5@20250929', 'messages'],
      ['gemini-2.5-pro', 'generate_content'],
      ['meta/llama-4-maas', null],
    ]) {
      const price = { input_price: '1', output_price: '2' };
      const money = { currency_code: 'USD', units: 1, nanos: 0 };
      const model = `vertex/${name}`;
      await call('PUT', `/catalog/models/${encodeURIComponent(model)}`, {
        context_window: 1_000,
        price: Object.fromEntries(Object.keys(price).map((key) => [key, money])),
      });
      const explained = await call('POST', '/explain', { model, route: 'chat_completions' });
      const models = explained.body.models as { connectors: Json[] }[];
      const own = models[0]?.connectors.find(({ connector_id }) => connector_id === body.id);
      expect([model, own?.translated_to]).toEqual([model, route]);
    }
  });
});
