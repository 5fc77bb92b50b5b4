import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type GoogleTokens, startGoogleTokens } from '@weighbridge/mock-vendor/clouds';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { chat, type HostileCase } from './hostileCase.ts';
import { operate, type Product } from './product.ts';
import type { Scene, Tenant } from './scene.ts';

const PROJECT = 'acme-models';
const ACCOUNT = '123456789012';
const SECRET = 'canary/of+the/account=';
const CLAUDE = { vertex: 'claude-sonnet-4-5@20250929', bedrock: 'anthropic.claude-sonnet-4-5-v1:0' };
const ROW = 'computed identities';

/** What a tenant can do with the tokens and signatures of clouds, and an operator with those of the proxies. */
export const IDENTITIES: readonly HostileCase[] = [
  { row: ROW, title: 'reach no other path, host or project, whatever a tenant names', run: oddNames },
  { row: ROW, title: 'are not replaced or extended by headers and members of a request', run: oddHeaders },
  { row: ROW, title: 'do not follow a redirect', run: redirects },
  { row: ROW, title: 'and accounts are not in errors, whatever a cloud repeats', run: echoes },
  { row: ROW, title: 'show no secret to operators, and go to no host of theirs', run: operators },
];

interface Call {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Record<string, unknown>;
}

interface Cloud {
  readonly url: string;
  readonly calls: Call[];
  reply: { readonly status: number; readonly headers?: Record<string, string>; readonly body: string };
  close(): void;
}

const MESSAGE = JSON.stringify({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  content: [{ type: 'text', text: 'weighed' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 3, output_tokens: 2 },
});

/** Answers every request alike, and keeps it. */
async function startCloud(): Promise<Cloud> {
  const calls: Call[] = [];
  const serve: RequestListener = async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    calls.push({ url: request.url ?? '', headers: request.headers, body: text ? JSON.parse(text) : {} });
    const { status, headers, body } = cloud.reply;
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  };
  const server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cloud: Cloud = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls,
    reply: { status: 200, body: MESSAGE },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  return cloud;
}

interface Clouds {
  readonly cloud: Cloud;
  readonly tokens: GoogleTokens;
  /** The providers, and their Claude. */
  readonly vertex: string;
  readonly bedrock: string;
  readonly models: readonly [string, string];
}

let runs = 0;

/** An account at each cloud, behind one server. */
async function withClouds(
  { product }: Scene,
  use: (clouds: Clouds) => Promise<void>,
  upstreamName?: string,
): Promise<void> {
  const cloud = await startCloud();
  const tokens = await startGoogleTokens({ project: PROJECT });
  const [vertex, bedrock] = [`vertex-${++runs}`, `bedrock-${runs}`] as const;
  const keys = { access_key_id: 'AKIDEXAMPLE00001', secret_access_key: SECRET };
  const models = [`${vertex}/${CLAUDE.vertex}`, `${bedrock}/${CLAUDE.bedrock}`] as const;
  try {
    await connect(product, vertex, `${cloud.url}/v1`, {
      kind: 'google',
      location: 'europe-west1',
      credentials: tokens.serviceAccount,
    });
    await connect(product, bedrock, cloud.url, { kind: 'aws', region: 'eu-central-1', ...keys });
    const money = { currency_code: 'USD', units: 1, nanos: 0 };
    for (const [at, id] of models.entries()) {
      const name = upstreamName ?? [CLAUDE.vertex, CLAUDE.bedrock][at];
      await operate(product, 'PUT', `/api/v1/catalog/models/${encodeURIComponent(id)}?wait=propagated`, {
        upstream_name: name,
        context_window: 400_000,
        max_output_tokens: 1_000,
        price: { input_price: money, output_price: money },
      });
    }
    await use({ cloud, tokens, vertex, bedrock, models });
  } finally {
    cloud.close();
    await tokens.close();
  }
}

async function connect(product: Product, provider: string, base_url: string, auth: object): Promise<string> {
  const connector = { name: provider, provider, base_url, auth };
  return String((await operate(product, 'POST', '/api/v1/connectors?wait=propagated', connector)).id);
}

const ask = (tenant: Tenant, model: string, fields: object = {}, headers: Record<string, string> = {}) =>
  tenant.ask('/v1/messages', { ...chat(model), max_tokens: 10, ...fields }, { headers });

/** Of Vertex AI and Bedrock, for Claude. */
const PATHS = [
  `/v1/projects/${PROJECT}/locations/europe-west1/publishers/anthropic/models/${CLAUDE.vertex}:rawPredict`,
  `/model/${encodeURIComponent(CLAUDE.bedrock)}/invoke`,
];
const ODD = [
  '/../x',
  '%2f..%2fx',
  '?alt=media',
  '#x',
  '@evil.example',
  ':predict',
  '/..;/x',
  '\\..\\x',
  '\r\nhost: x',
];

async function oddNames(scene: Scene): Promise<void> {
  const tenant = await scene.tenant();
  await withClouds(scene, async ({ cloud, vertex, bedrock, models }) => {
    for (const odd of ODD) {
      for (const model of [...models.map((id) => id + odd), `${vertex}/${odd}`, `${bedrock}/${odd}`]) {
        const answers = [
          await ask(tenant, model),
          await tenant.ask('/v1/chat/completions', chat(model)),
          await tenant.ask(`/v1beta/models/${encodeURIComponent(model)}:generateContent`, { contents: [] }),
        ];
        expect([model, answers.filter(({ status }) => status !== 404 && status !== 400)]).toEqual([
          model,
          [],
        ]);
      }
    }
    expect(cloud.calls).toEqual([]);
    for (const model of models) expect((await ask(tenant, model)).status).toBe(200);
    expect(cloud.calls.map(({ url }) => url)).toEqual(PATHS);
  });
  // An operator's mistake, or worse: it is the tenant's request that would carry the token there.
  for (const name of [
    'claude-/../../../evil',
    'claude-a?b',
    'claude-%2e%2e',
    'claude a',
    'claude-a/..',
    'claude-é',
  ]) {
    const refused = async ({ cloud, models }: Clouds) => {
      for (const model of models) {
        expect([name, (await ask(tenant, model)).status, cloud.calls]).toEqual([name, 400, []]);
      }
    };
    await withClouds(scene, refused, name);
  }
}

async function oddHeaders(scene: Scene): Promise<void> {
  const tenant = await scene.tenant();
  const headers = {
    'x-api-key': tenant.key,
    'x-goog-api-key': 'canary',
    'x-goog-user-project': 'canary',
    'x-goog-iam-authorization-token': 'canary',
    'x-amz-security-token': 'canary',
    'x-amz-date': '20200101T000000Z',
    'x-amz-content-sha256': 'canary',
    'x-amzn-bedrock-guardrailidentifier': 'canary',
    'x-forwarded-host': 'evil.example',
    'anthropic-beta': 'canary-2025-01-01,context-1m-2025-08-07',
  };
  const members = { anthropic_version: 'canary', anthropic_beta: ['canary'] };
  await withClouds(scene, async ({ cloud, tokens, models }) => {
    for (const model of models) expect((await ask(tenant, model, members, headers)).status).toBe(200);
    const [google, aws] = cloud.calls;
    expect(cloud.calls.map(({ url }) => url)).toEqual(PATHS);
    expect(JSON.stringify(cloud.calls)).not.toMatch(/canary|evil|20200101/);
    expect(JSON.stringify(cloud.calls)).not.toContain(tenant.key);
    expect(google?.headers.authorization).toBe(`Bearer ${tokens.issued[0]}`);
    expect(aws?.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE00001\//);
    for (const call of cloud.calls) expect(`http://${call.headers.host}`).toBe(cloud.url);
    expect(google?.headers['anthropic-beta']).toBe('context-1m-2025-08-07');
    expect([google?.body.anthropic_version, aws?.body.anthropic_version]).toEqual([
      'vertex-2023-10-16',
      'bedrock-2023-05-31',
    ]);
    expect([google?.body.anthropic_beta, aws?.body.anthropic_beta]).toEqual([
      undefined,
      ['context-1m-2025-08-07'],
    ]);
  });
}

async function redirects(scene: Scene): Promise<void> {
  const tenant = await scene.tenant();
  const elsewhere = await startCloud();
  try {
    await withClouds(scene, async ({ cloud, models }) => {
      for (const status of [301, 302, 303, 307, 308]) {
        cloud.reply = { status, headers: { location: `${elsewhere.url}/v1` }, body: '' };
        for (const model of models) expect((await ask(tenant, model)).status).toBe(502);
      }
    });
    expect(elsewhere.calls).toEqual([]);
  } finally {
    elsewhere.close();
  }
}

async function echoes(scene: Scene): Promise<void> {
  const tenant = await scene.tenant();
  await withClouds(scene, async ({ cloud, tokens, models }) => {
    await ask(tenant, models[0]);
    const token = String(tokens.issued[0]);
    const told = `no: Bearer ${token}, ${token}, projects/${PROJECT}/locations/x, project ${PROJECT}, a@b.iam.gserviceaccount.com, arn:aws:iam::${ACCOUNT}:role/models, arn:aws:bedrock:eu-central-1:${ACCOUNT}:x, AKIDEXAMPLE00001`;
    for (const status of [400, 404, 429, 500]) {
      for (const body of [
        JSON.stringify({ message: told }),
        JSON.stringify({ error: { code: status, message: told, status: 'INVALID_ARGUMENT' } }),
        JSON.stringify([{ error: { code: status, message: told, status: 'INVALID_ARGUMENT' } }]),
        JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message: told } }),
        told,
      ]) {
        cloud.reply = { status, headers: { 'x-amzn-errortype': 'ValidationException' }, body };
        for (const [at, model] of models.entries()) {
          const { text } = await ask(tenant, model);
          const secrets = at === 0 ? [token, PROJECT, 'gserviceaccount'] : [ACCOUNT, 'role/models'];
          expect([body.slice(0, 20), secrets.filter((secret) => text.includes(secret))]).toEqual([
            body.slice(0, 20),
            [],
          ]);
        }
      }
    }
    expect(scene.product.output()).not.toContain(token);
  });
}

async function operators(scene: Scene): Promise<void> {
  const { product } = scene;
  await withClouds(scene, async ({ vertex, bedrock }) => {
    const list = await operate(product, 'GET', '/api/v1/connectors?page_size=500');
    const mine = (list.data as { id: string; name: string; auth: object }[]).filter(({ name }) =>
      [vertex, bedrock].includes(name),
    );
    expect(mine.map(({ auth }) => auth)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ credentials: 'sealed' }),
        expect.objectContaining({ secret_access_key: 'sealed' }),
      ]),
    );
    const shown = [
      JSON.stringify(list),
      JSON.stringify(await operate(product, 'GET', '/api/v1/audit?page_size=500')),
      product.output(),
    ];
    for (const { id } of mine) {
      shown.push(JSON.stringify((await manage(product, 'POST', `/api/v1/connectors/${id}/test`, {})).body));
      const moved = await manage(product, 'PATCH', `/api/v1/connectors/${id}`, {
        body: { base_url: 'https://evil.example/v1' },
      });
      expect(moved.status).toBe(422);
      shown.push(JSON.stringify(moved.body));
    }
    for (const secret of ['PRIVATE KEY', SECRET]) expect(shown.join('\n')).not.toContain(secret);
  });
  const add = async (fields: object) => {
    const body = { name: `own-${++runs}`, provider: 'vertex', auth: { kind: 'google' }, ...fields };
    return (await manage(product, 'POST', '/api/v1/connectors', { body })).status;
  };
  for (const host of ['evil.example', 'googleapis.com.evil.example', 'metadata.google.internal']) {
    expect([host, await add({ base_url: `https://${host}/v1`, enabled: false })]).toEqual([host, 422]);
  }
  const files = { type: 'external_account', credential_source: { file: '/etc/passwd' } };
  const wrong = { kind: 'google', credentials: JSON.stringify(files) };
  expect(await add({ auth: wrong, enabled: false })).toBe(422);
}
