import { describe, expect, it } from 'vitest';
import { ALICE, BOB, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

/** What holds for every dialect, in Gemini's: session pins, cached responses and names; and names as Azure's deployments. */
const vendor = useVendor();
const nanoPerToken = 1n;
const MODELS: NonNullable<TestProxyOptions['models']> = [
  { id: 'mock/gem-9', nanoPerToken, own: true, otherNames: ['gem-9-001', 'gem-9-latest'] },
  { id: 'mock/gem-9-mini', nanoPerToken, own: true },
];
const ALIASES = [
  { id: 'als_1', name: 'fast', target: 'mock/gem-9-mini' },
  { id: 'als_2', name: 'team-*', target: 'mock/gem-9' },
  { id: 'als_3', name: 'cheap', target: 'router/cheap' },
];
const PROFILES = [{ id: 'prf_1', name: 'cheap', targets: [{ model: 'mock/gem-9-mini', weight: 1 }] }];
const start = (more: Partial<TestProxyOptions> = {}) =>
  startProxyForTest({
    vendorUrl: vendor.url,
    models: MODELS,
    aliases: ALIASES,
    profiles: PROFILES,
    ...more,
  });

const BODY = { contents: [{ role: 'user', parts: [{ text: 'Hello there' }] }] };

interface Asking {
  readonly method?: string;
  readonly body?: object;
  readonly key?: string;
  readonly headers?: Record<string, string>;
}

/** Sends a request of Gemini's dialect; what answers it, and what was recorded. */
async function ask(
  proxy: TestProxy,
  model: string,
  { method = 'generateContent', body = BODY, key = ALICE, headers = {} }: Asking = {},
) {
  const answer = await fetch(`${proxy.url}/v1beta/models/${model}:${method}`, {
    method: 'POST',
    headers: { 'x-goog-api-key': key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    type: answer.headers.get('content-type'),
    cache: answer.headers.get('x-svc-cache'),
    served: answer.headers.get('x-svc-model'),
    connector: proxy.events.at(-1)?.connectorId,
    text,
  };
}

const SSE = 'streamGenerateContent?alt=sse';
const ARRAY = 'streamGenerateContent';

describe('a session in the dialect of Gemini', () => {
  const preferring = (first: string) =>
    ['con_a', 'con_b'].map((id) => ({ id, priority: id === first ? 0 : 1 }));

  it('stays on its connector, whole, streamed and as an array, and on other routes', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    const session = { 'x-svc-session-id': 's' };
    expect(await ask(proxy, 'gem-9', { headers: session })).toMatchObject({ connector: 'con_a' });
    proxy.publish({ connectors: preferring('con_b'), profiles: PROFILES });
    for (const method of ['generateContent', SSE, ARRAY]) {
      expect(await ask(proxy, 'mock/gem-9', { method, headers: session })).toMatchObject({
        connector: 'con_a',
      });
      expect(await ask(proxy, 'gem-9', { method })).toMatchObject({ connector: 'con_b' });
    }
    await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...session },
      body: JSON.stringify({ model: 'gem-9', messages: [{ role: 'user', content: 'x' }] }),
    });
    expect(proxy.events.at(-1)?.connectorId).toBe('con_a');
    expect(proxy.pinResults.filter((result) => result === 'new')).toHaveLength(1);
  });

  it('belongs to its principal and its model', async () => {
    const proxy = await start({ connectors: preferring('con_a') });
    const headers = { 'x-svc-session-id': 's' };
    await ask(proxy, 'gem-9', { headers });
    proxy.publish({ connectors: preferring('con_b'), profiles: PROFILES });
    expect(await ask(proxy, 'gem-9', { headers, key: BOB })).toMatchObject({ connector: 'con_b' });
    expect(await ask(proxy, 'gem-9-mini', { headers })).toMatchObject({ connector: 'con_b' });
    expect(await ask(proxy, 'gem-9-latest', { headers })).toMatchObject({ connector: 'con_a' });
  });
});

describe('the response cache in the dialect of Gemini', () => {
  const cached = () => start({ policyCache: { policyId: 'pol_1', scope: 'principal', ttlMs: 60_000 } });

  it('answers the same request, under any name of its model', async () => {
    const proxy = await cached();
    const first = await ask(proxy, 'gem-9');
    expect(first).toMatchObject({ status: 200, cache: 'miss' });
    for (const name of ['gem-9', 'mock/gem-9', 'mock%2Fgem-9', 'team-x']) {
      const hit = await ask(proxy, name);
      expect([name, hit]).toMatchObject([name, { cache: 'hit', served: 'mock/gem-9', text: first.text }]);
    }
    expect(await ask(proxy, 'gem-9', { key: BOB })).toMatchObject({ cache: 'miss' });
    expect(await ask(proxy, 'gem-9-001')).toMatchObject({ cache: 'miss' });
    const warmer = { ...BODY, generationConfig: { temperature: 1 } };
    expect(await ask(proxy, 'gem-9', { body: warmer })).toMatchObject({ cache: 'miss' });
    expect(await ask(proxy, 'gem-9', { body: { ...BODY, labels: { team: 'a' } } })).toMatchObject({
      cache: 'hit',
    });
    expect(vendor.bill).toHaveLength(4);
  });

  it.each([
    [SSE, ARRAY],
    [ARRAY, SSE],
  ])('answers a stream by %s, and then by %s, from one entry', async (method, other) => {
    const proxy = await cached();
    const headers = { 'x-mock-chunks': '4' };
    const first = await ask(proxy, 'gem-9', { method, headers });
    expect(first).toMatchObject({ status: 200, cache: 'miss' });
    expect(await ask(proxy, 'gem-9', { method, headers })).toEqual({
      ...first,
      cache: 'hit',
      connector: expect.anything(),
    });
    const as = await ask(proxy, 'gem-9', { method: other, headers });
    expect(as).toMatchObject({ status: 200, cache: 'hit' });
    const [array, events] = method === ARRAY ? [first, as] : [as, first];
    expect(array.type).toContain('application/json');
    expect(events.type).toContain('text/event-stream');
    const chunks = events.text.split(/\r?\n/).flatMap((line) => line.match(/^data: (.*)$/)?.[1] ?? []);
    expect(JSON.parse(array.text)).toEqual(chunks.map((chunk) => JSON.parse(chunk)));
    expect(chunks.length).toBeGreaterThan(3);
    // A whole answer is another one.
    expect(await ask(proxy, 'gem-9', { headers })).toMatchObject({ cache: 'miss' });
    expect(vendor.bill).toHaveLength(2);
  });

  it.each([
    ['is cut at its limit', { ...BODY, generationConfig: { maxOutputTokens: 1 } }, 'miss'],
    ['uses what the vendor stores', { ...BODY, cachedContent: 'cachedContents/x' }, 'bypass'],
    [
      'uses what the vendor stores, in the other spelling',
      { ...BODY, cached_content: 'cachedContents/x' },
      'bypass',
    ],
    ['searches', { ...BODY, tools: [{ googleSearch: {} }] }, 'bypass'],
  ])('keeps nothing that %s', async (_what, body, cache) => {
    const proxy = await cached();
    for (const method of ['generateContent', SSE, ARRAY]) {
      await ask(proxy, 'gem-9', { method, body });
      expect([method, (await ask(proxy, 'gem-9', { method, body })).cache]).toEqual([method, cache]);
    }
  });

  it('takes no part in counting tokens', async () => {
    const proxy = await cached();
    const counted = { method: 'countTokens' };
    await ask(proxy, 'gem-9', counted);
    expect(await ask(proxy, 'gem-9', counted)).toMatchObject({ status: 200, cache: 'bypass' });
  });
});

/** What a request of each API with a model in its path asks for: the same model under many names. */
const PATHS: readonly [string, (name: string) => string, object][] = [
  ["Gemini's", (name) => `/v1beta/models/${name}:generateContent`, BODY],
  ["Gemini's stream", (name) => `/v1/models/${name}:streamGenerateContent?alt=sse`, BODY],
  ["Gemini's count", (name) => `/v1beta/models/${name}:countTokens`, BODY],
  [
    "Azure's",
    (name) => `/openai/deployments/${name}/chat/completions?api-version=2024-10-21`,
    { model: 'mock/echo', messages: [{ role: 'user', content: 'x' }] },
  ],
  [
    "Azure's embeddings",
    (name) => `/openai/deployments/${name}/embeddings?api-version=2024-10-21`,
    { input: 'x' },
  ],
];

describe.each(PATHS)('a name in a path of %s', (_what, pathOf, body) => {
  const post = (proxy: TestProxy, name: string, sent: object = body) =>
    fetch(proxy.url + pathOf(name), {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: JSON.stringify(sent),
    });
  /** How the vendor was asked for a model: in the path or in the body. */
  const sent = () => {
    const { path = '', body: bytes } = vendor.requests.at(-1) ?? {};
    return /\/models\/([^:]+):/.exec(path)?.[1] ?? JSON.parse(String(bytes)).model;
  };

  it.each([
    ['mock/gem-9', 'mock/gem-9', 'gem-9'],
    ['mock%2Fgem-9', 'mock/gem-9', 'gem-9'],
    ['gem-9', 'mock/gem-9', 'gem-9'],
    ['gem-9-001', 'mock/gem-9', 'gem-9-001'],
    ['mock/gem-9-latest', 'mock/gem-9', 'gem-9-latest'],
    ['fast', 'mock/gem-9-mini', 'gem-9-mini'],
    ['team-blue', 'mock/gem-9', 'gem-9'],
    ['team-%C3%A9t%C3%A9', 'mock/gem-9', 'gem-9'],
    ['router/cheap', 'mock/gem-9-mini', 'gem-9-mini'],
    ['cheap', 'mock/gem-9-mini', 'gem-9-mini'],
    ['publishers%2Fgoogle%2Fmodels%2Fgem-9', 'mock/gem-9', 'gem-9'],
  ])('%s stands for %s', async (name, model, upstream) => {
    const proxy = await start();
    const answer = await post(proxy, name);
    expect([answer.status, answer.headers.get('x-svc-model'), sent()]).toEqual([200, model, upstream]);
  });

  it('is forbidden under every spelling, and under every alias', async () => {
    const proxy = await start({ restrictsModels: true });
    proxy.allows = (model) => model !== 'mock/gem-9';
    for (const name of [
      'mock/gem-9',
      'mock%2Fgem-9',
      'gem-9',
      'gem-9-001',
      'mock/gem-9-latest',
      'team-blue',
    ]) {
      const answer = await post(proxy, name);
      expect([name, answer.status, /model_not_allowed/i.test(await answer.text())]).toEqual([
        name,
        403,
        true,
      ]);
    }
    proxy.allows = (model) => model !== 'mock/gem-9-mini';
    for (const name of ['fast', 'router/cheap', 'cheap'])
      expect((await post(proxy, name)).status).not.toBe(200);
    expect(vendor.requests).toEqual([]);
  });

  it('that stands for nothing is 404, with the nearest', async () => {
    const proxy = await start();
    const answer = await post(proxy, 'gem-9-mni');
    const text = await answer.text();
    expect([answer.status, /model_not_found/i.test(text), text.includes('mock/gem-9-mini')]).toEqual([
      404,
      true,
      true,
    ]);
  });
});

it('a body may repeat the name of its path, which goes out as the vendor knows it', async () => {
  const proxy = await start();
  const named = (model: string) => ({ ...BODY, model });
  expect(await ask(proxy, 'fast', { body: named('models/fast') })).toMatchObject({ status: 200 });
  expect(JSON.parse(String(vendor.requests[0]?.body)).model).toBe('models/gem-9-mini');
  proxy.allows = (model) => model !== 'mock/gem-9';
  for (const other of ['models/gem-9', 'gem-9', 'models/mock/gem-9-mini', 'models/mock/gem-9']) {
    expect([other, (await ask(proxy, 'fast', { body: named(other) })).status]).toEqual([other, 400]);
  }
  expect(vendor.requests).toHaveLength(1);
});
