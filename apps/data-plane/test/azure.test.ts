import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import { create } from '@bufbuild/protobuf';
import { AzureIdentitySchema, Dialect, Outcome, PriceSchema, Route } from '@weighbridge/contracts';
import { type Entra, startAzureResource, startEntra } from '@weighbridge/mock-vendor/clouds';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { post } from './post.ts';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const TENANT = '72f988bf-0000-4000-8000-2d7cd011db47';
const SECRET = 'canary~secret.of-the_app';
const APP = { clientId: '11111111-0000-4000-8000-000000000001', clientSecret: SECRET };
const SUBJECT = 'system:serviceaccount:weighbridge:data-plane';
const MODEL = 'azure/our-gpt';
const CLAUDE = 'azure/our-claude';
const HELLO = { model: MODEL, messages: [{ role: 'user' as const, content: 'Grüße, "Waage" ☃' }] };

const vendor = useVendor();

/** The machine of these proxies. Microsoft's library asks once where its metadata server is. */
let machine: Entra;
beforeAll(async () => {
  machine = await startEntra({ tenantId: TENANT });
  process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST = machine.url;
});
afterAll(async () => {
  delete process.env.AZURE_POD_IDENTITY_AUTHORITY_HOST;
  await machine?.close();
});

interface Scene {
  readonly entra?: Partial<Pick<Entra, 'lifeMs'>>;
  readonly nowMs?: () => number;
  readonly identity?: object;
  readonly env?: Readonly<Record<string, string>>;
  readonly proxy?: Partial<TestProxyOptions>;
  readonly others?: readonly string[];
}

/** A proxy in front of a resource of Azure with a deployment of GPT and one of Claude. */
async function startScene({ identity, env = {}, nowMs, others = [], ...options }: Scene = {}) {
  const entra = await startEntra({ tenantId: TENANT, ...options.entra, ...(nowMs && { nowMs }) });
  onTestFinished(() => entra.close());
  entra.apps = [{ ...APP, federatedSubject: SUBJECT }];
  const resource = await startAzureResource({
    entra,
    vendorUrl: vendor.url,
    deployments: {
      'our-gpt': { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' },
      'our-claude': { sent: 'echo', answered: 'claude-sonnet-4-5-20250929' },
    },
  });
  onTestFinished(() => resource.close());
  const value = create(AzureIdentitySchema, {
    authorityHost: entra.url,
    allowPrivateAddress: true,
    ...(identity ?? { tenantId: TENANT, ...APP }),
  });
  const common = { provider: 'azure', credential: '' };
  const lines: string[] = [];
  const proxy = await startProxyForTest({
    vendorUrl: vendor.url,
    connectors: [
      {
        ...common,
        models: [MODEL],
        baseUrl: `${resource.url}/openai/v1`,
        identity: { case: 'azure', value },
      },
      {
        ...common,
        models: [CLAUDE],
        dialect: Dialect.ANTHROPIC,
        routes: [Route.MESSAGES],
        baseUrl: `${resource.url}/anthropic/v1`,
        identity: { case: 'azure', value },
      },
      ...others.map((baseUrl) => ({ ...common, baseUrl })),
    ],
    models: [
      { id: MODEL, provider: 'azure', upstreamName: 'our-gpt', nanoPerToken: 3_000n },
      { id: CLAUDE, provider: 'azure', upstreamName: 'our-claude', nanoPerToken: 3_000n },
    ],
    maxRetries: 2,
    azureEnvironment: env,
    log: (line) => void lines.push(line),
    ...options.proxy,
  });
  const chat = async (fields: object = {}) => {
    const answer = await post(proxy, '/v1/chat/completions', { ...HELLO, ...fields });
    return { status: answer.status, text: await answer.text() };
  };
  return { entra, resource, proxy, lines, chat };
}

const charged = ({ events }: TestProxy) => events.reduce((sum, { costNanoUsd }) => sum + costNanoUsd, 0n);
const billed = () =>
  vendor.bill.reduce((sum, entry) => sum + BigInt(entry.inputTokens + entry.outputTokens) * 3_000n, 0n);

describe('a resource of Azure', () => {
  it("serves OpenAI's SDK on its v1 routes, whole and streamed, and the ledger has what it bills", async () => {
    const { entra, resource, proxy } = await startScene();
    const client = new OpenAI({ apiKey: ALICE, baseURL: `${proxy.url}/v1`, maxRetries: 0 });
    const whole = await client.chat.completions.create(HELLO);
    expect(whole.choices[0]?.message.content).not.toBe('');
    expect(whole.usage?.total_tokens).toBeGreaterThan(0);
    let text = '';
    for await (const { choices } of await client.chat.completions.create({ ...HELLO, stream: true })) {
      text += choices[0]?.delta.content ?? '';
    }
    expect(text).toBe(whole.choices[0]?.message.content);
    expect((await client.responses.create({ model: MODEL, input: 'Grüße' })).output_text).not.toBe('');
    expect(
      (await client.embeddings.create({ model: MODEL, input: 'Grüße' })).data[0]?.embedding,
    ).not.toHaveLength(0);
    expect(resource.requests.map(({ path, body }) => [path, body.model])).toEqual([
      ['/openai/v1/chat/completions', 'our-gpt'],
      ['/openai/v1/chat/completions', 'our-gpt'],
      ['/openai/v1/responses', 'our-gpt'],
      ['/openai/v1/embeddings', 'our-gpt'],
    ]);
    expect([resource.refusals, entra.answers]).toEqual([[], ['200']]);
    await expect.poll(() => proxy.events.length).toBe(4);
    expect([charged(proxy), proxy.events.map(({ details }) => details?.unpriced ?? [])]).toEqual([
      billed(),
      [[], [], [], []],
    ]);
  });

  it("serves Anthropic's SDK with Claude on Foundry, and callers of other dialects by translation", async () => {
    const { resource, proxy, chat } = await startScene();
    const client = new Anthropic({ apiKey: ALICE, baseURL: proxy.url, maxRetries: 0 });
    const body = { ...HELLO, model: CLAUDE, max_tokens: 500 };
    const whole = await client.messages.create(body);
    const streamed = await client.messages.stream(body).finalMessage();
    expect(streamed.content).toEqual(whole.content);
    expect((await chat({ model: CLAUDE })).status).toBe(200);
    expect(resource.requests.map(({ path }) => path)).toEqual(Array(3).fill('/anthropic/v1/messages'));
    await expect.poll(() => proxy.events.length).toBe(3);
    expect([resource.refusals, charged(proxy)]).toEqual([[], billed()]);
  });

  it('costs what its region costs: the price of the connector that answered', async () => {
    const { entra, resource } = await startScene();
    const regions = [
      { name: 'swedencentral', nano: 2_750n },
      { name: 'eastus', nano: 2_500n },
    ];
    const value = create(AzureIdentitySchema, {
      tenantId: TENANT,
      ...APP,
      authorityHost: entra.url,
      allowPrivateAddress: true,
    });
    let isDown = false;
    const first = await startVendor((request, response) => {
      if (isDown) return void request.socket.destroy();
      void fetch(`${resource.url}${request.url?.replace('/v1', '/openai/v1')}`, {
        method: 'POST',
        headers: {
          authorization: request.headers.authorization ?? '',
          'content-type': 'application/json',
        },
        body: request as never,
        duplex: 'half',
      } as RequestInit).then(async (answer) =>
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text()),
      );
    });
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: regions.map(({ nano }, priority) => ({
        provider: 'azure',
        credential: '',
        priority,
        baseUrl: priority === 0 ? first : `${resource.url}/openai/v1`,
        identity: { case: 'azure' as const, value },
        prices: {
          [MODEL]: create(PriceSchema, {
            version: 7,
            rates: { input: nano * 1_000_000n, output: nano * 1_000_000n },
          }),
        },
      })),
      models: [{ id: MODEL, provider: 'azure', upstreamName: 'our-gpt', nanoPerToken: 9_999n }],
      maxRetries: 2,
    });
    const costs: bigint[] = [];
    for (isDown of [false, true]) {
      const before = vendor.bill.length;
      expect((await post(proxy, '/v1/chat/completions', HELLO)).status).toBe(200);
      const [entry] = vendor.bill.slice(before);
      costs.push(BigInt((entry?.inputTokens ?? 0) + (entry?.outputTokens ?? 0)));
    }
    const settled = () => proxy.events.filter(({ outcome }) => outcome === Outcome.SUCCESS);
    await expect.poll(() => settled().length).toBe(2);
    const [tokens = 0n, again = 0n] = costs;
    expect(settled().map(({ connectorId, costNanoUsd }) => [connectorId, costNanoUsd])).toEqual([
      ['con_0', tokens * 2_750n],
      ['con_1', again * 2_500n],
    ]);
  });

  it("hands on what Azure's filter and Azure refuse, and charges nothing", async () => {
    const { proxy, chat } = await startScene();
    const filtered = await chat({ messages: [{ role: 'user', content: 'azure-filters-this' }] });
    expect([filtered.status, JSON.parse(filtered.text).error.code]).toEqual([400, 'content_filter']);
    expect([charged(proxy), proxy.unauthorized]).toEqual([0n, []]);
  });
});

describe('an identity at Azure', () => {
  it('is a federated token of the pod, which is read again as the kubelet replaces it', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'azure-'));
    onTestFinished(() => rm(dir, { recursive: true }));
    const file = join(dir, 'token');
    let skippedMs = 0;
    const nowMs = () => performance.now() + skippedMs;
    const { entra, chat } = await startScene({
      identity: {},
      env: {
        AZURE_TENANT_ID: TENANT,
        AZURE_CLIENT_ID: APP.clientId,
        AZURE_FEDERATED_TOKEN_FILE: file,
      },
      proxy: { nowMs },
    });
    await writeFile(file, entra.federatedToken(SUBJECT, { lifeMs: -1 }));
    expect((await chat()).status).toBe(502);
    expect(entra.answers).toEqual(['700024']);
    await writeFile(file, `${entra.federatedToken(SUBJECT)}\n`);
    skippedMs = 61_000;
    expect([(await chat()).status, entra.answers.at(-1)]).toEqual([200, '200']);
  });

  it('is the managed identity of the machine, or the one that is named', async () => {
    machine.managedIdentities = ['22222222-0000-4000-8000-000000000001'];
    const resource = await startAzureResource({
      entra: machine,
      vendorUrl: vendor.url,
      deployments: { 'our-gpt': { sent: 'echo', answered: 'gpt-4o-mini-2024-07-18' } },
    });
    onTestFinished(() => resource.close());
    const open = (clientId: string) =>
      startProxyForTest({
        vendorUrl: vendor.url,
        connectors: [
          {
            provider: 'azure',
            credential: '',
            baseUrl: `${resource.url}/openai/v1`,
            identity: { case: 'azure', value: create(AzureIdentitySchema, { clientId }) },
          },
        ],
        models: [{ id: MODEL, provider: 'azure', upstreamName: 'our-gpt', nanoPerToken: 3_000n }],
      });
    expect((await post(await open(''), '/v1/chat/completions', HELLO)).status).toBe(200);
    const other = await open('33333333-0000-4000-8000-000000000001');
    expect((await post(other, '/v1/chat/completions', HELLO)).status).toBe(502);
    expect(other.tokenFailures[0]?.error.message).toContain('managed identity');
    expect(machine.answers).toEqual(['200', 'Identity not found']);
  });

  it.each<[string, Scene, Partial<Pick<Entra, 'apps' | 'mode'>>, string]>([
    ['a wrong secret', {}, { apps: [{ ...APP, clientSecret: 'new' }] }, 'AADSTS7000215'],
    ['a secret that ended', {}, { apps: [{ ...APP, secretExpiresAtMs: 1 }] }, 'AADSTS7000222'],
    ['an application that is gone', {}, { apps: [] }, 'AADSTS700016'],
    [
      'another scope',
      { identity: { tenantId: TENANT, ...APP, scope: 'https://vault.azure.net/.default' } },
      {},
      'AADSTS500011',
    ],
    ['no tenant', { identity: { ...APP } }, {}, 'AZURE_TENANT_ID'],
    [
      'no file of its pod',
      {
        identity: {},
        env: { AZURE_TENANT_ID: TENANT, AZURE_CLIENT_ID: 'a', AZURE_FEDERATED_TOKEN_FILE: '/none' },
      },
      {},
      'AZURE_FEDERATED_TOKEN_FILE',
    ],
    ['a provider that is down', {}, { mode: 'down' }, 'could not be reached'],
    ['a provider that fails', {}, { mode: 'failing' }, 'status 503'],
    [
      'a private authority that is not allowed',
      { identity: { tenantId: TENANT, ...APP, allowPrivateAddress: false } },
      {},
      'ALLOWED_UPSTREAM_HOSTS',
    ],
  ])(
    'that is not one is 502 connector_unauthorized, costs nothing and is told to the operator: %s',
    async (_what, scene, change, says) => {
      const { entra, resource, proxy, lines, chat } = await startScene(scene);
      Object.assign(entra, change);
      const { status, text } = await chat();
      expect([status, JSON.parse(text).error.code]).toEqual([502, 'connector_unauthorized']);
      expect([resource.requests, resource.refusals]).toEqual([[], []]);
      expect(proxy.events.map(({ costNanoUsd, outcome }) => [costNanoUsd, outcome])).toEqual([
        [0n, Outcome.UPSTREAM_UNREACHABLE],
      ]);
      expect(proxy.unauthorized).toEqual(['con_0: 0']);
      const said = proxy.tokenFailures.map((failure) => failure.error.message).join('\n');
      expect(said).toContain(says);
      expect([text, said, ...lines].join('\n')).not.toMatch(/canary|client_secret=|client_assertion/);
    },
  );

  it('leaves its requests to the next target while there is none', async () => {
    const other = await startVendor((request, response) => {
      request.resume();
      response.end('{"id":"of the other","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}');
    });
    const { entra, proxy, chat } = await startScene({ others: [other] });
    entra.apps = [];
    const { status, text } = await chat();
    expect([status, JSON.parse(text).id, proxy.failovers]).toEqual([
      200,
      'of the other',
      ['con_0: credential'],
    ]);
  });

  it('does not hold up requests for long where the metadata server hangs', async () => {
    machine.mode = 'hanging';
    onTestFinished(() => void Object.assign(machine, { mode: 'up' }));
    const clientId = '44444444-0000-4000-8000-000000000001';
    const { proxy, chat } = await startScene({ identity: { clientId } });
    expect((await chat()).status).toBe(502);
    // Once: another try would hold it up for as long again.
    expect(proxy.tokenFailures.map(({ error }) => error.message)).toEqual([
      expect.stringContaining('did not answer within 2000 ms'),
    ]);
  });

  it.each([-86_400_000, 86_400_000])(
    'goes by how long a token lives, whatever the clock of the machine says: %i ms off',
    async (offMs) => {
      const { entra, resource, chat } = await startScene({ nowMs: () => Date.now() + offMs });
      for (let n = 0; n < 3; n++) expect((await chat()).status).toBe(200);
      expect([entra.answers, resource.refusals]).toEqual([['200'], []]);
    },
  );

  it('shows no token where Azure repeats it', async () => {
    const { entra, resource, lines, chat, proxy } = await startScene();
    await chat();
    entra.revokeTokens();
    const { status, text } = await chat();
    expect([status, resource.refusals]).toEqual([502, expect.arrayContaining(['Unauthorized'])]);
    const shown = [text, ...lines, ...proxy.tokenFailures.map(({ error }) => error.message)].join('\n');
    for (const token of entra.issued) expect(shown).not.toContain(token);
  });
});
