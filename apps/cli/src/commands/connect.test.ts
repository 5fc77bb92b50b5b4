import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { RECIPES } from '../connect/recipes.ts';
import { createProgram, runProgram } from './program.ts';

let server: Server;
let url: string;
let received: { path: string; body: Record<string, unknown> }[];
let policies: Record<string, unknown>[];
/** As the route of inference shows them. */
let models: string[];

beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    const json = { 'content-type': 'application/json' };
    if (request.method === 'GET') {
      const { pathname } = new URL(request.url ?? '', url);
      const name = /^\/v1\/models\/(.+)$/.exec(pathname)?.[1];
      const isKnown = name === undefined || models.some((id) => id.endsWith(`/${name}`));
      const isOfKey = /^Bearer sk-svc-(new|existing)$/.test(request.headers.authorization ?? '');
      const data = pathname === '/api/v1/policies' ? policies : models.map((id) => ({ id }));
      response.writeHead(isKnown && (isOfKey || data === policies) ? 200 : 404, json);
      response.end(JSON.stringify({ data, next_page_token: '' }));
      return;
    }
    received.push({ path: request.url ?? '', body: JSON.parse(body) });
    const key = { id: 'key_1', name: 'n', policy_id: 'pol_1', key: 'sk-svc-new' };
    response.writeHead(201, json);
    response.end(JSON.stringify(request.url === '/api/v1/policies' ? { id: 'pol_9' } : key));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close());
beforeEach(() => {
  received = [];
  policies = [];
  models = RECIPES.map(({ model }) => `vendor/${model}`);
});

async function connect(...args: string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const cli = {
    env: { WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: 'sk-svc-operator' },
    version: '1.2.3',
    out: (text: string) => out.push(text),
    err: (text: string) => err.push(text),
    readFile: async () => 'sk-svc-existing\n',
    writeFile: async () => {},
    now: () => new Date('2026-11-20T10:00:00Z'),
  };
  const code = await runProgram(createProgram(cli), ['connect', ...args], cli);
  return { code, out: out.join('\n'), err: err.join('\n') };
}

it('prints the settings of a client with a new key, and says what to do next on standard error', async () => {
  const { code, out, err } = await connect('claude-code', '--principal', 'ada', '--expires', '30d');
  expect([code, out]).toEqual([
    0,
    `# Claude Code. In a shell:\nexport ANTHROPIC_BASE_URL=${url}\nexport ANTHROPIC_AUTH_TOKEN=sk-svc-new`,
  ]);
  expect(err).toMatch(/^Issued n \(key_1\), governed by pol_1[\s\S]*Then: claude\n/);
  expect(received).toEqual([
    {
      path: '/api/v1/keys',
      body: {
        name: 'claude-code',
        scopes: ['inference', 'models:read', 'usage:read'],
        principal_id: 'ada',
        expires_at: '2026-12-20T10:00:00.000Z',
      },
    },
  ]);
});

it.each(RECIPES.map(({ name }) => name))('%s: the text has every setting that --json has', async (name) => {
  const text = (await connect(name)).out;
  const json = JSON.parse((await connect(name, '--json')).out);
  expect(json).toMatchObject({ client: name, key_id: 'key_1' });
  for (const [variable, value] of Object.entries(json.env))
    expect(text).toContain(`export ${variable}=${value}`);
  for (const [path, content] of Object.entries<string>(json.files ?? {})) {
    expect(text).toContain(`# In ~/${path}:\n${content.trimEnd()}`);
  }
  if (json.code) expect(text).toContain(json.code);
  expect(text).toContain('sk-svc-new');
  expect(text).toContain(url);
});

it('creates a policy for the budget, under the policy that --policy names', async () => {
  await connect('codex', '--budget', '12.50', '--policy', 'pol_team', '--name', 'ci');
  expect(received).toEqual([
    {
      path: '/api/v1/policies',
      body: {
        name: '$12.50 a month for each key',
        limit_micro_usd: 12_500_000,
        window: 'month',
        counter_scope: 'key',
        parent_policy_id: 'pol_team',
      },
    },
    { path: '/api/v1/keys', body: expect.objectContaining({ name: 'ci', policy_id: 'pol_9' }) },
  ]);
});

it('uses the policy of an earlier call with the same budget, if an operator left it as it was', async () => {
  const policy = {
    id: 'pol_5',
    name: '$12.50 a month for each key',
    limit_micro_usd: 12_500_000,
    window: 'month',
    counter_scope: 'key',
    parent_policy_id: null,
    enforcement: 'enforce',
  };
  const changes = [{}, { limit_micro_usd: 1 }, { enforcement: 'off' }, { parent_policy_id: 'pol_1' }];
  const used = [];
  for (const change of changes) {
    policies = [{ ...policy, ...change }];
    await connect('codex', '--budget', '12.50');
    used.push(received.at(-1)?.body.policy_id);
  }
  expect(used).toEqual(['pol_5', 'pol_9', 'pol_9', 'pol_9']);
});

it('names a model that the key can reach, where the usual one has no connector', async () => {
  models = ['mock/embed', 'mock/echo', 'router/cheap'];
  const { out, err } = await connect('openai-python');
  expect(out).toContain('client = OpenAI()');
  expect(err).toContain('Then: client.responses.create(model="mock/echo", input="Hello")');
  expect(err).toMatch(/This key cannot reach gpt-\S+: name mock\/echo instead, or add its vendor\./);
  expect(JSON.parse((await connect('groq-js', '--json')).out).next).toContain("model: 'mock/echo'");
  models = [];
  expect((await connect('openai-python')).err).not.toContain('cannot reach');
});

it('uses an existing key, and another address of inference', async () => {
  const { out } = await connect(
    ...['codex', '--existing-key-file', 'k', '--inference-url', `${url.replace('127.0.0.1', 'localhost')}/`],
  );
  expect(out).toContain('export WEIGHBRIDGE_KEY=sk-svc-existing');
  expect(out).toContain(`base_url = "${url.replace('127.0.0.1', 'localhost')}/v1"`);
  expect(received).toEqual([]);
});

it('lists the clients, and names them for an unknown one; nothing is sent', async () => {
  expect((await connect()).out).toMatch(/^claude-code +Claude Code\ncodex +Codex\n/);
  const { code, err } = await connect('cursor');
  expect([code, err]).toEqual([2, expect.stringMatching(/cursor.*claude-code, codex, opencode/)]);
  expect((await connect('codex', '--inference-url', 'nowhere')).code).toBe(2);
  expect(received).toEqual([]);
});

it('names are unique, and words that a shell takes as they are', () => {
  const names = RECIPES.map(({ name }) => name);
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(name).toMatch(/^[a-z0-9-]+$/);
  for (const { routes } of RECIPES) expect([...routes].sort()).toEqual(routes);
});
