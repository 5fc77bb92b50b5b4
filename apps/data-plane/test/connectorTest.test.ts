import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  AwsIdentitySchema,
  ConnectorSchema,
  Dialect,
  GoogleIdentitySchema,
  OAuthClientSchema,
  TestConnectorSchema,
} from '@weighbridge/contracts';
import {
  type AwsTokens,
  startAuthorizationServer,
  startAwsTokens,
  startBedrock,
  startGoogleTokens,
  startVertex,
} from '@weighbridge/mock-vendor/clouds';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ConnectorTests } from '../src/request/connectorTest.ts';
import { ConnectorIdentities } from '../src/upstream/connectorIdentities.ts';
import { createUpstreams } from '../src/upstream/upstreams.ts';
import { clearIdentityEnvironment } from './identityScenes.ts';
import { startVendor } from './servers.ts';

const CREDENTIAL = 'sk-canary-0123456789';
const HOUR_MS = 3_600_000;

function openTests() {
  const identities = new ConnectorIdentities({
    onFailed: () => {},
    nowMs: () => performance.now(),
    clockMs: Date.now,
    random: Math.random,
    azureEnvironment: {},
  });
  // What ends a test is its own time-out.
  const timeouts = { connectTimeoutMs: HOUR_MS, firstByteTimeoutMs: HOUR_MS, chunkTimeoutMs: HOUR_MS };
  const upstreams = createUpstreams(timeouts, identities);
  onTestFinished(() => upstreams.close());
  const tests = new ConnectorTests({ upstreams, identities, azureEnvironment: {} });
  return (connector: MessageInitShape<typeof ConnectorSchema>, timeoutMs = 5_000) =>
    tests.run(
      create(TestConnectorSchema, {
        testId: 't',
        timeoutMs,
        connector: create(ConnectorSchema, {
          id: 'con_1',
          provider: 'acme',
          dialect: Dialect.OPENAI,
          credential: CREDENTIAL,
          allowPrivateAddress: true,
          ...connector,
        }),
      }),
    );
}

it.each<[string, object, number, string[]]>([
  ["OpenAI's list", { data: [{ id: 'a' }, { id: 'b\u0000c' }] }, 200, ['a', 'b c']],
  ["Google's list", { models: [{ name: 'models/a' }, null, {}] }, 200, ['models/a']],
  ['a list of nonsense', { data: 'a' }, 200, []],
])('shows the models of %s', async (_what, body, status, models) => {
  const seen: unknown[] = [];
  const baseUrl = await startVendor((request, response) => {
    seen.push([request.method, request.url, request.headers.authorization]);
    response.writeHead(status, { 'x-ms-region': 'Sweden Central' }).end(JSON.stringify(body));
  });
  expect(await openTests()({ baseUrl })).toMatchObject({
    testId: 't',
    ok: true,
    status: 200,
    region: 'Sweden Central',
    identity: '',
    models,
  });
  expect(seen).toEqual([['GET', '/v1/models', `Bearer ${CREDENTIAL}`]]);
});

it('shows at most a hundred models, and that there are more', async () => {
  const data = Array.from({ length: 101 }, (_, n) => ({ id: `model-${n}` }));
  const baseUrl = await startVendor((_request, response) => void response.end(JSON.stringify({ data })));
  const { models, hasMoreModels } = await openTests()({ baseUrl });
  expect([models?.length, hasMoreModels]).toEqual([100, true]);
});

it.each([
  [401, 'rejected'],
  [404, 'no list of models'],
  [429, 'rate limiting'],
  [302, 'redirects'],
  [500, 'answered with 500'],
])(
  'says what a status of %i means, and shows no credential that the upstream repeats',
  async (status, says) => {
    const baseUrl = await startVendor((request, response) => {
      const error = { message: `sent with ${request.headers.authorization}` };
      response.writeHead(status, { location: 'http://elsewhere.example' }).end(JSON.stringify({ error }));
    });
    const tested = await openTests()({ baseUrl });
    expect(tested).toMatchObject({ ok: false, status, message: expect.stringContaining(says) });
    expect(JSON.stringify(tested)).not.toContain(CREDENTIAL);
  },
);

it('takes no longer than it may, whatever hangs, and runs few at once', async () => {
  const baseUrl = await startVendor((request) => void request.resume());
  const test = openTests();
  const all = await Promise.all(Array.from({ length: 12 }, () => test({ baseUrl }, 300)));
  const said = all.map(({ message }) => message ?? '');
  expect(said.filter((message) => message.includes('did not answer within 300 ms'))).toHaveLength(8);
  expect(said.filter((message) => message.includes('other tests'))).toHaveLength(4);
  expect(await test({ baseUrl }, 50)).toMatchObject({ message: expect.stringContaining('within 50 ms') });
});

it('reaches no private address that the deployment does not allow', async () => {
  let asked = 0;
  const baseUrl = await startVendor((_request, response) => {
    asked++;
    response.end();
  });
  const tested = await openTests()({ baseUrl, allowPrivateAddress: false });
  expect(tested).toMatchObject({ ok: false, message: expect.stringContaining('ALLOWED_UPSTREAM_HOSTS') });
  expect(asked).toBe(0);
});

it('says why there is no token, and which client it is', async () => {
  const server = await startAuthorizationServer({ clientId: 'us', clientSecret: 'right' });
  onTestFinished(() => server.close());
  const baseUrl = await startVendor((_request, response) => void response.end('{"data":[]}'));
  const test = openTests();
  const client = (clientSecret: string) => ({
    baseUrl,
    credential: '',
    identity: {
      case: 'oauth' as const,
      value: create(OAuthClientSchema, {
        tokenUrl: server.tokenUrl,
        clientId: 'us',
        clientSecret,
        allowPrivateAddress: true,
      }),
    },
  });
  expect(await test(client('wrong'))).toMatchObject({
    ok: false,
    identity: 'client us',
    message: expect.stringContaining('status 401'),
  });
  expect(await test(client('right'))).toMatchObject({ ok: true, identity: 'client us' });
});

it('shows which models AWS has in the region, or that the identity may not list them, and no account', async () => {
  const keys = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary of the account' };
  const one = { sent: 'echo', answered: 'a' };
  const models = { 'amazon.nova-pro-v1:0': one, 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0': one };
  const bedrock = await startBedrock({ region: 'eu-central-1', models, vendorUrl: 'http://127.0.0.1:1' });
  onTestFinished(() => bedrock.close());
  bedrock.accounts = [keys];
  const run = openTests();
  const test = (fields: object = {}) => {
    const value = create(AwsIdentitySchema, { region: 'eu-central-1', ...keys, ...fields });
    return run({ baseUrl: bedrock.url, credential: '', identity: { case: 'aws', value } });
  };
  expect(await test()).toMatchObject({
    ok: true,
    status: 200,
    region: 'eu-central-1',
    identity: `access key ${keys.accessKeyId}`,
    models: Object.keys(models),
    hasMoreModels: false,
  });
  expect(bedrock.refusals).toEqual([]);
  const wrong = await test({ secretAccessKey: 'canary of another' });
  expect(wrong).toMatchObject({ ok: false, status: 403, message: expect.stringContaining('rejected') });
  bedrock.isForbidden = true;
  const forbidden = await test();
  expect(forbidden).toMatchObject({ ok: true, message: expect.stringContaining('may not list models') });
  expect(JSON.stringify([wrong, forbidden])).not.toMatch(/canary|123456789012/);
});

it.each<[string, (tokens: AwsTokens) => object, string]>([
  [
    'its environment',
    () => ({ AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE00001', AWS_SECRET_ACCESS_KEY: 'canary of the account' }),
    'its environment',
  ],
  [
    'the agent of its node',
    ({ agentUrl, agentToken }) => ({
      AWS_CONTAINER_CREDENTIALS_FULL_URI: agentUrl,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: agentToken,
    }),
    'the agent of its node',
  ],
])('says that the proxy found its identity at AWS in %s', async (_what, environmentOf, source) => {
  const tokens = await startAwsTokens({ region: 'eu-central-1' });
  onTestFinished(() => tokens.close());
  const bedrock = await startBedrock({ region: 'eu-central-1', models: {}, vendorUrl: 'http://127.0.0.1:1' });
  onTestFinished(() => bedrock.close());
  bedrock.accounts = tokens.accounts;
  tokens.accounts.push({ accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'canary of the account' });
  clearIdentityEnvironment(Object.keys(process.env));
  onTestFinished(() => void vi.unstubAllEnvs());
  for (const [name, value] of Object.entries(environmentOf(tokens))) vi.stubEnv(name, String(value));
  const value = create(AwsIdentitySchema, { region: 'eu-central-1' });
  const tested = await openTests()({
    baseUrl: bedrock.url,
    credential: '',
    identity: { case: 'aws', value },
  });
  expect(tested).toMatchObject({ ok: true, identity: `the proxy's own identity: ${source}` });
  expect(JSON.stringify(tested)).not.toMatch(/canary|session-/);
});

it('shows which models Google has at the location, or that the identity may not list them, and no token', async () => {
  const tokens = await startGoogleTokens({ project: 'acme-models' });
  onTestFinished(() => tokens.close());
  const models = {
    'google/gemini-2.5-pro': { sent: 'echo' },
    'anthropic/claude-sonnet-4-5@20250929': { sent: 'echo' },
  };
  const vertex = await startVertex({
    project: 'acme-models',
    location: 'europe-west1',
    models,
    vendorUrl: 'http://127.0.0.1:1/v1',
    tokens,
  });
  onTestFinished(() => vertex.close());
  const run = openTests();
  const test = () => {
    const value = create(GoogleIdentitySchema, {
      location: 'europe-west1',
      credentials: tokens.serviceAccount,
      allowPrivateAddress: true,
    });
    return run({ baseUrl: vertex.url, credential: '', identity: { case: 'google', value } });
  };
  expect(await test()).toMatchObject({
    ok: true,
    status: 200,
    region: 'europe-west1',
    identity: expect.stringMatching(/^service account \S+@\S+$/),
    models: ['gemini-2.5-pro', 'claude-sonnet-4-5@20250929'],
  });
  vertex.isForbidden = true;
  const forbidden = await test();
  expect(forbidden).toMatchObject({ ok: true, message: expect.stringContaining('may not list models') });
  tokens.revokeTokens();
  const revoked = await test();
  expect(revoked).toMatchObject({ ok: false, status: 401, message: expect.stringContaining('rejected') });
  expect(JSON.stringify([forbidden, revoked])).not.toContain('ya29.');
});
