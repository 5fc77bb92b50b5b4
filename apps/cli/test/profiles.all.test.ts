import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createTestDatabase, eventually, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));

let dataDir: string;
let database: TestDatabase;
/** Serve `acme/*` and `bolt/*`. */
let vendors: [MockVendor, MockVendor];
/** Serves `down/*`, only with errors. */
let broken: Server;
let app: RunningProcess;
let service: Service;

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const price = (units: number) => ({ input_price: usd(units), output_price: usd(units) });
const messages = [{ role: 'user' as const, content: 'Hello there' }];

async function operate(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
  const answer = await manage(service, method, `/api/v1${path}`, { body });
  expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
  return answer.body;
}

async function issue(fields: object = {}): Promise<{ id: string; key: string }> {
  const key = { name: 'app', principal_id: `app-${Math.random()}`, scopes: ['inference'], ...fields };
  return (await operate('POST', '/keys', key)) as { id: string; key: string };
}

async function complete(key: string, model: string) {
  const { data, response } = await sdk(service, key)
    .chat.completions.create({ model, messages })
    .withResponse();
  return { data, served: response.headers.get('x-svc-model'), headers: response.headers };
}

const targets = (...models: string[]) => models.map((model) => ({ model }));
const servedBy = async (key: string, model: string) => (await complete(key, model)).served;

/** Runs a command as a user does; returns its JSON output. */
async function weighbridge(...args: string[]): Promise<Record<string, unknown>> {
  const env = {
    PATH: process.env.PATH,
    WEIGHBRIDGE_URL: service.managementUrl,
    WEIGHBRIDGE_DATA_DIR: dataDir,
  };
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, ...args, '--json'], {
    env,
    cwd: dataDir,
  });
  return JSON.parse(stdout);
}

beforeAll(async () => {
  dataDir = await newDataDir();
  broken = createServer((_request, response) => {
    response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":{"message":"down"}}');
  });
  await new Promise<void>((resolve) => broken.listen(0, '127.0.0.1', resolve));
  const brokenUrl = `http://127.0.0.1:${(broken.address() as AddressInfo).port}/v1`;
  [database, ...vendors] = await Promise.all([createTestDatabase(), startMockVendor(), startMockVendor()]);
  const hosts = [...vendors.map(({ url }) => url), brokenUrl].map((url) => new URL(url).host);
  ({ process: app, service } = await startUp(dataDir, {
    DATABASE_URL: database.url,
    ALLOWED_UPSTREAM_HOSTS: hosts.join(','),
  }));

  const accounts = { acme: vendors[0].url, bolt: vendors[1].url, down: brokenUrl };
  for (const [provider, base_url] of Object.entries(accounts)) {
    await operate('POST', '/connectors', { name: provider, provider, dialect: 'openai', base_url });
  }
  const prices = { 'acme/a': 1, 'bolt/b': 3, 'down/x': 2 };
  for (const [model, units] of Object.entries(prices)) {
    const entry = { context_window: 8_000, upstream_name: 'echo', price: price(units) };
    await operate('PUT', `/catalog/models/${model}`, entry);
  }
});
afterAll(async () => {
  await app?.stop();
  for (const vendor of vendors ?? []) await vendor.close();
  broken?.close();
  await database?.drop();
  await removeDataDir(dataDir);
});

it('the proxy follows edits of a profile, and explain predicts its choice', async () => {
  const { key, id: keyId } = await issue();
  const settings = { name: 'shop', strategy: 'ordered', targets: targets('acme/a', 'bolt/b') };
  const { id } = await operate('POST', '/profiles', settings);
  const follows = (model: string) =>
    eventually(async () => expect(await servedBy(key, 'router/shop')).toBe(model), {
      intervalMs: 100,
    });
  await follows('acme/a');
  const explained = async () =>
    (await weighbridge('profiles', 'explain', String(id), '--key', keyId)).chosen as { model: string };
  expect(await explained()).toMatchObject({ model: 'acme/a' });

  await operate('PATCH', `/profiles/${id}`, { targets: targets('bolt/b', 'acme/a') });
  await follows('bolt/b');
  expect(await explained()).toMatchObject({ model: 'bolt/b' });
  await operate('PATCH', `/profiles/${id}`, { strategy: 'cheapest' });
  await follows('acme/a');
  expect(await explained()).toMatchObject({ model: 'acme/a' });
  await operate('PATCH', `/profiles/${id}`, { constraints: { max_input_price_micro_usd: 0 } });
  await eventually(async () => {
    await expect(complete(key, 'router/shop')).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
  });
  expect(await explained()).toBeNull();
  await operate('DELETE', `/profiles/${id}`);
  await eventually(async () => {
    await expect(complete(key, 'router/shop')).rejects.toThrow('There is no routing profile "shop"');
  });
});

it('the next model answers if one fails, and the ledger has both at their own prices', async () => {
  const { key, id: keyId } = await issue();
  await operate('POST', '/profiles', {
    name: 'robust',
    strategy: 'ordered',
    targets: targets('down/x', 'bolt/b'),
  });
  await eventually(async () => expect(await servedBy(key, 'router/robust')).toBe('bolt/b'));
  const tokens = (await complete(key, 'router/robust')).data.usage?.total_tokens ?? 0;
  expect(tokens).toBeGreaterThan(0);
  const rows = async () =>
    await database.db
      .selectFrom('usage_events')
      .select(['model', 'model_requested', 'model_attempt', 'attempt', 'http_status', 'cost_nano_usd'])
      .where('key_id', '=', keyId)
      .orderBy('event_id')
      .execute();
  const requests = 2;
  const perRequest = BigInt(tokens) * 3_000n;
  await eventually(async () => {
    const all = await rows();
    expect(all.filter(({ model }) => model === 'bolt/b')).toHaveLength(requests);
    expect(all[0]).toEqual({
      model: 'down/x',
      model_requested: 'router/robust',
      model_attempt: 1,
      attempt: 1,
      http_status: 500,
      cost_nano_usd: 0n,
    });
    expect(all[1]).toEqual({
      model: 'bolt/b',
      model_requested: 'router/robust',
      model_attempt: 1,
      attempt: 2,
      http_status: 200,
      cost_nano_usd: perRequest,
    });
    const sum = all.reduce((total, { cost_nano_usd }) => total + cost_nano_usd, 0n);
    expect(sum).toBe(perRequest * BigInt(requests));
  });
  await eventually(async () => {
    const { body } = await manage(service, 'GET', `/api/v1/keys/${keyId}/usage`);
    expect(body.bucket_spent_micro_usd).toBe(3 * tokens * requests);
  });
});

it('a policy sets the profile behind `router/default`, and which of its models may serve', async () => {
  const file = join(dataDir, 'routing.yaml');
  await writeFile(
    file,
    `profiles:
  - name: default
    strategy: ordered
    targets: [{ model: acme/a }]
  - name: team
    strategy: ordered
    targets: [{ model: acme/a }, { model: bolt/b }]
policies:
  - name: parent
    profile: team
  - name: narrow
    parent: parent
    allowed_models: ["bolt/*"]
`,
  );
  await weighbridge('apply', '-f', file);
  const { data: policies } = await operate('GET', '/policies');
  const policy = (policies as { id: string; name: string }[]).find(({ name }) => name === 'narrow');
  const { key, id: keyId } = await issue({ policy_id: policy?.id });
  const { key: other } = await issue();
  await eventually(async () => {
    expect(await servedBy(key, 'router/default')).toBe('bolt/b');
    expect(await servedBy(other, 'router/default')).toBe('acme/a');
  });
  const listed = (await sdk(service, key).models.list()).data.map(({ id }) => id);
  expect(listed).toEqual(expect.arrayContaining(['bolt/b', 'router/default', 'router/team']));
  expect(listed).not.toContain('acme/a');
  await expect(complete(key, 'acme/a')).rejects.toMatchObject({ status: 403, code: 'model_not_allowed' });
  const { data: profiles } = await operate('GET', '/profiles');
  const team = (profiles as { id: string; name: string }[]).find(({ name }) => name === 'team');
  expect(await weighbridge('profiles', 'explain', team?.id ?? '', '--key', keyId)).toMatchObject({
    chosen: { model: 'bolt/b' },
    excluded: [{ model: 'acme/a', stage: 'policy' }],
  });
});

it('a budget that is used up gives way to another policy and profile; each counter has what it governed', async () => {
  const hard = { counter_scope: 'policy', budget_mode: 'hard', window: 'none' };
  const settings = { name: 'afterwards', strategy: 'ordered', targets: targets('bolt/b') };
  const profile = await operate('POST', '/profiles', settings);
  const above = await operate('POST', '/policies', { name: 'above', limit_micro_usd: 10_000, ...hard });
  const after = await operate('POST', '/policies', { name: 'after', limit_micro_usd: 900, ...hard });
  const own = await weighbridge(
    ...['policies', 'create', 'own', '--limit-micro-usd', '300', '--parent', String(above.id)],
    ...['--budget-mode', 'hard', '--counter-scope', 'policy', '--window', 'none'],
    ...['--on-exhausted', `${profile.id},${after.id}`],
  );
  const { key, id: keyId } = await issue({ policy_id: own.id });
  const ask = async () => {
    const request = { model: 'acme/a', messages, max_tokens: 20 };
    const { response } = await sdk(service, key).chat.completions.create(request).withResponse();
    return response.headers.get('x-svc-model');
  };
  await eventually(async () => expect(await ask()).toBe('acme/a'));
  const served: (string | null)[] = ['acme/a'];
  let refusal: { status?: number; code?: string; error?: { policy_id?: string } } | undefined;
  for (let tries = 0; !refusal && tries < 1_000; tries++) {
    try {
      served.push(await ask());
    } catch (error) {
      // Others say to try again.
      if ((error as { code?: string }).code === 'budget_exhausted') refusal = error as typeof refusal;
    }
  }
  expect(refusal).toMatchObject({ status: 429, code: 'budget_exhausted', error: { policy_id: after.id } });
  const first = served.filter((model) => model === 'acme/a').length;
  expect(first).toBeGreaterThan(0);
  // Once it has given way, it does not come back in this window.
  expect(served).toEqual([...Array(first).fill('acme/a'), ...Array(served.length - first).fill('bolt/b')]);
  expect(served.length).toBeGreaterThan(first);

  const spentOf = async (policy: unknown) => {
    const { data } = await operate('GET', `/policies/${policy}/counters`);
    return (data as { spent_micro_usd: number }[])[0]?.spent_micro_usd ?? 0;
  };
  await eventually(async () => {
    const rows = await database.db
      .selectFrom('usage_events')
      .select(['model', 'model_requested', 'policy_id', 'cost_nano_usd'])
      .where('key_id', '=', keyId)
      .execute();
    expect(rows).toHaveLength(served.length);
    for (const row of rows) {
      const governed = { 'acme/a': own.id, 'bolt/b': after.id }[row.model];
      expect(row).toMatchObject({ policy_id: governed, model_requested: 'acme/a' });
    }
    const sumOf = (model: string) =>
      rows.filter((row) => row.model === model).reduce((sum, row) => sum + Number(row.cost_nano_usd), 0) /
      1_000;
    expect(await spentOf(own.id)).toBe(sumOf('acme/a'));
    expect(await spentOf(after.id)).toBe(sumOf('bolt/b'));
    expect(await spentOf(above.id)).toBe(sumOf('acme/a') + sumOf('bolt/b'));
  });
  expect(await spentOf(own.id)).toBeLessThanOrEqual(300);
  expect(await spentOf(after.id)).toBeLessThanOrEqual(900);
  // What the profile can't serve is refused for the budget that the caller has.
  await operate('PATCH', `/policies/${after.id}`, { limit_micro_usd: 100_000, allowed_models: ['acme/*'] });
  await eventually(async () => {
    await expect(ask()).rejects.toMatchObject({ code: 'budget_exhausted', error: { policy_id: own.id } });
  });
  await operate('PATCH', `/policies/${after.id}`, { allowed_models: [] });
  await eventually(async () => expect(await ask()).toBe('bolt/b'));
  // A parent is replaced by nothing.
  await operate('PATCH', `/policies/${above.id}`, { limit_micro_usd: 1 });
  await eventually(async () => {
    await expect(ask()).rejects.toThrow('the budget of a parent policy');
  });
  await operate('PATCH', `/policies/${above.id}`, { limit_micro_usd: 100_000 });
  await eventually(async () => expect(await ask()).toBe('bolt/b'));
  await operate('PATCH', `/policies/${own.id}`, { limit_micro_usd: 100_000 });
  await eventually(async () => expect(await ask()).toBe('acme/a'));
});
