import { randomBytes } from 'node:crypto';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { findSecrets, type Written } from './findSecrets.ts';
import { type GuardedService, startGuardedService } from './service.ts';
import { dumpOf, filesBelow, messagesOf } from './writtenData.ts';

/**
 * Uses every secret that the service receives or creates, in every way that callers, operators and vendors have, valid and
 * invalid. Then searches everything that any part of the service wrote for each secret.
 */

const hex = () => randomBytes(24).toString('hex');
const base64 = () => randomBytes(32).toString('base64');

/** By name; those created on the way are added later. */
const secrets: Record<string, string> = {
  'the operator key': `sk-svc-${hex()}`,
  'the pepper': hex(),
  'the key-encryption key': base64(),
  'the token of the control plane': hex(),
  'the state key': base64(),
  'the key of the response cache': base64(),
  'the key of the collector': hex(),
  'a credential of the environment': `sk-env-${hex()}`,
  'a sealed credential': `sk-sealed-${hex()}`,
  'a credential that its vendor repeats': `sk-echo-${hex()}`,
  'a key that was never issued': `sk-svc-${hex()}`,
  'a key in a query': `sk-svc-${hex()}`,
  'a password in another scheme': hex(),
};
/** Not a secret of the service, but never stored either. Vendors repeat it to the sender. */
const prompt = `the-prompt-${hex()}`;

const given = (name: string): string => secrets[name] ?? '';

let service: GuardedService;
const answers: Written[] = [];

beforeAll(async () => {
  service = await startGuardedService(given);
});
afterAll(() => service?.close());

interface Ask {
  readonly key?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/** Calls either surface, and records the response except for the field that hands out a secret. */
async function call(method: string, url: string, { key, headers, body }: Ask = {}) {
  const response = await fetch(url, {
    method,
    headers: {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const json = text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {};
  const visible = typeof json.key === 'string' ? text.replace(json.key, '') : text;
  answers.push({
    where: `the answer to ${method} ${url.replace(/\?.*/, '')}`,
    bytes: Buffer.from(JSON.stringify([...response.headers]) + visible),
  });
  return { status: response.status, json };
}

const operate = async (method: string, path: string, ask: Ask = {}) =>
  await call(method, `${service.urls.api}/api/v1${path}`, { key: given('the operator key'), ...ask });
const infer = async (path: string, ask: Ask) =>
  await call('POST', `${service.urls.inference}/v1${path}`, ask);

async function made(path: string, body: unknown): Promise<Record<string, unknown>> {
  const { status, json } = await operate('POST', path, { body });
  expect([status, json.error]).toEqual([201, undefined]);
  return json;
}

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });

it('no part of the service writes a secret', async () => {
  await useEverything();
  const written = await everythingWritten();
  expect(findSecrets(secrets, [...written, ...answers])).toEqual([]);
  expect(findSecrets({ 'a prompt': prompt }, written)).toEqual([]);
});

async function useEverything(): Promise<void> {
  const { sealedUrl, echoUrl } = service.vendors;
  await connect('sealed', 'a sealed credential', sealedUrl);
  await connect('echo', 'a credential that its vendor repeats', echoUrl);
  await issueKeys();
  await inferByAll();
  await tryWhatIsNotTaken();
  await callByTokens();
  for (const path of [
    '/keys',
    '/connectors',
    '/audit',
    '/requests',
    '/proxies',
    '/policies',
    '/quarantine',
    '/evidence',
  ]) {
    expect((await operate('GET', path)).status, path).toBe(200);
  }
}

async function connect(provider: string, secret: string, base_url: string): Promise<void> {
  const fields = { provider, dialect: 'openai', base_url };
  const { id } = await made('/connectors', { ...fields, name: provider, credential: given(secret) });
  await operate('POST', `/connectors/${id}/test`);
  // Refused requests that contain the secret.
  for (const wrong of [
    { dialect: 'none' },
    { base_url: `http://user:${given(secret)}@127.0.0.1/v1` },
    { name: '' },
  ]) {
    const body = { ...fields, name: 'wrong', credential: given(secret), ...wrong };
    expect((await operate('POST', '/connectors', { body })).status).toBeGreaterThanOrEqual(400);
  }
  const price = { input_price: usd(1), output_price: usd(2) };
  const model = { context_window: 1_000, upstream_name: 'echo', price };
  expect((await operate('PUT', `/catalog/models/${provider}/echo`, { body: model })).status).toBeLessThan(
    300,
  );
}

async function issueKeys(): Promise<void> {
  const policy = await made('/policies', {
    name: 'cached',
    limit_micro_usd: 1_000_000,
    cache: { scope: 'principal', ttl_seconds: 3_600 },
  });
  const headers = { 'idempotency-key': 'once' };
  const body = { name: 'app', principal_id: 'app', policy_id: policy.id };
  const issued = (await operate('POST', '/keys', { body, headers })).json;
  secrets['an issued key'] = String(issued.key);
  expect((await operate('POST', '/keys', { body, headers })).json.key).toBe(issued.key);
  const rotated = await operate('POST', `/keys/${issued.id}/rotate`, { body: { grace_seconds: 3_600 } });
  secrets['a rotated key'] = String(rotated.json.key);
  const disabled = await made('/keys', { name: 'disabled', disabled: true });
  secrets['a disabled key'] = String(disabled.key);
}

async function inferByAll(): Promise<void> {
  const messages = [{ role: 'user', content: prompt }];
  const of = (provider: string) => ({
    model: `${provider}/${provider === 'openai' ? 'gpt-4o-mini' : 'echo'}`,
    messages,
  });
  const [old, key] = [given('an issued key'), given('a rotated key')];
  // Until the proxy knows what was just created.
  await eventually(async () =>
    expect((await infer('/chat/completions', { key, body: of('sealed') })).status).toBe(200),
  );
  for (const provider of ['openai', 'sealed', 'echo']) {
    for (const stream of [false, true]) {
      for (const one of [old, key]) {
        // Vendors repeat a credential in refusals of it, which stay here, and in errors that pass on.
        const refuses = stream ? { 'openai-beta': 'refuse' } : {};
        const attribution = {
          'x-svc-session-id': 'conversation',
          'x-svc-user': 'ada',
          'x-svc-team': provider,
        };
        const headers = { ...attribution, ...refuses };
        const { status } = await infer('/chat/completions', {
          key: one,
          body: { ...of(provider), stream },
          headers,
        });
        expect([provider, status]).toEqual([provider, provider !== 'echo' ? 200 : stream ? 502 : 400]);
      }
    }
  }
  const toMessages = { ...of('sealed'), max_tokens: 10 };
  await infer('/messages', { headers: { 'x-api-key': key }, body: toMessages });
  await infer('/embeddings', {
    key,
    body: { model: 'openai/text-embedding-3-small', input: prompt },
  });
  await infer('/responses', { key, body: { model: 'openai/gpt-4o-mini', input: prompt } });
  await infer('/chat/completions', { key, body: { model: 'nothing/at-all', messages } });
  await infer('/chat/completions', { key, body: `{"model": "${prompt}"` });
  await call('GET', `${service.urls.inference}/v1/models`, { key });
}

async function tryWhatIsNotTaken(): Promise<void> {
  const body = { model: 'sealed/echo', messages: [] };
  const never = given('a key that was never issued');
  for (const key of [never, `${never}!`, given('a disabled key'), given('an issued key').slice(0, -1)]) {
    expect((await infer('/chat/completions', { key, body })).status).toBe(401);
    expect((await infer('/messages', { headers: { 'x-api-key': key }, body })).status).toBe(401);
    expect((await operate('GET', '/keys', { key })).status).toBe(401);
  }
  const basic = { authorization: `Basic ${given('a password in another scheme')}` };
  expect((await call('GET', `${service.urls.api}/api/v1/keys`, { headers: basic })).status).toBe(401);
  expect(
    (await call('POST', `${service.urls.inference}/v1/chat/completions`, { headers: basic, body })).status,
  ).toBe(401);
  const query = `api_key=${given('a key in a query')}&token=${given('a key in a query')}`;
  expect((await operate('GET', `/keys?${query}`)).status).toBe(400);
  await infer(`/chat/completions?${query}`, { key: given('an issued key'), body });
}

async function callByTokens(): Promise<void> {
  const now = new Date();
  const claims = { sub: 'app', groups: ['admins'] };
  const tokens = {
    'a token': await service.issuer.token(now, claims),
    'an expired token': await service.issuer.token(new Date(0), claims),
    'a token for somebody else': await service.issuer.token(now, { ...claims, aud: 'somebody' }),
    "a stranger's token": await service.issuer.token(now, { ...claims, sub: 'stranger' }),
  };
  for (const [name, token] of Object.entries(tokens)) {
    // Only the signature is secret.
    secrets[name] = token.split('.')[2] ?? '';
    const headers = { 'idempotency-key': name.replaceAll(' ', '-') };
    const { status, json } = await operate('POST', '/keys', {
      key: token,
      body: { name: 'by a token' },
      headers,
    });
    expect([name, status]).toEqual([name, { 'a token': 201, "a stranger's token": 403 }[name] ?? 401]);
    if (typeof json.key === 'string') secrets['a key that a token issued'] = json.key;
    await infer('/chat/completions', { key: token, body: { model: 'sealed/echo', messages: [] } });
  }
}

/** Everything that was written, with a check that each kind contains what it should. */
async function everythingWritten(): Promise<Written[]> {
  const { db, metricsUrls, apps, folder, natsUrl, collector } = service;
  await eventually(async () => {
    const rows = await db.selectFrom('usage_events').select('event_id').execute();
    expect(rows.length).toBeGreaterThan(10);
  });
  const tracesSent = () => [{ where: 'the traces', bytes: Buffer.concat(collector.raw) }];
  const metrics = await Promise.all(
    Object.entries(metricsUrls).map(async ([app, url]) => ({
      where: `the metrics of ${app}`,
      bytes: Buffer.from(await (await fetch(url)).text()),
    })),
  );
  // Usage from now on stays in NATS and in the spool.
  await apps.metering.stop();
  const body = {
    model: 'sealed/echo',
    messages: [{ role: 'user', content: prompt }],
    temperature: 1,
  };
  await infer('/chat/completions', { key: given('a rotated key'), body });
  await eventually(async () => {
    holds(await messagesOf(natsUrl), 'the stream USAGE_EVENTS', 'sealed/echo');
    expect((await filesBelow(folder)).map(({ where }) => where)).toContain('the file state');
    holds(tracesSent(), 'the traces', 'sealed/echo');
  });

  const logs = Object.entries(apps).map(([app, { output }]) => ({
    where: `the log of ${app}`,
    bytes: Buffer.from(output()),
  }));
  const [tables, messages, files] = [await dumpOf(db), await messagesOf(natsUrl), await filesBelow(folder)];
  holds(tables, 'the table audit_log', 'key.created');
  holds(tables, 'the table usage_events', 'sealed/echo');
  holds(tables, 'the table idempotent_answers', 'once');
  holds(messages, 'the stream USAGE_EVENTS', 'sealed/echo');
  holds(messages, 'the stream KV_RESPONSE_CACHE', '$KV.RESPONSE_CACHE');
  holds(messages, 'the stream KV_SESSION_PINS', '$KV.SESSION_PINS');
  holds(files, 'the file spools/own', 'sealed/echo');
  for (const app of Object.keys(metricsUrls)) holds(metrics, `the metrics of ${app}`, 'weighbridge_');
  for (const app of Object.keys(apps)) holds(logs, `the log of ${app}`, 'is ready');
  holds(answers, 'the answer to GET', 'actor_oidc_subject');
  return [...tables, ...messages, ...files, ...metrics, ...logs, ...tracesSent()];
}

function holds(written: readonly Written[], where: string, text: string): void {
  const found = written.filter((one) => one.where.includes(where) && one.bytes.includes(text));
  expect(found.length, `${text} in ${where}, of ${written.map((one) => one.where)}`).toBeGreaterThan(0);
}
