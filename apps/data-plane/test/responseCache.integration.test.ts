import { randomUUID } from 'node:crypto';
import Anthropic from '@anthropic-ai/sdk';
import { CacheScope, Strategy } from '@weighbridge/contracts';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ALICE,
  BOB,
  RATED,
  SPENT,
  settled,
  startProxy,
  type TestProxy,
  type TestProxyOptions,
} from './proxy.ts';

const HOUR_MS = 3_600_000;
const OF_PRINCIPAL = { policyId: 'pol_1', scope: 'principal', ttlMs: HOUR_MS } as const;
const OF_POLICY = { ...OF_PRINCIPAL, scope: 'policy' } as const;

let vendor: MockVendor;
let proxy: TestProxy;

beforeEach(async () => {
  vendor = await startMockVendor({ apiKey: 'vendor-secret' });
  await startWith({ policyCache: OF_PRINCIPAL });
});
afterEach(async () => {
  await proxy.close();
  await vendor.close();
});

async function startWith(options: Partial<TestProxyOptions>): Promise<void> {
  await proxy?.close();
  proxy = await startProxy({ vendorUrl: vendor.url, ...options });
}

type Options = { readonly key?: string; readonly headers?: Record<string, string> };

function openai({ key = ALICE, headers = {} }: Options = {}): OpenAI {
  return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0, defaultHeaders: headers });
}

function anthropic({ key = ALICE, headers = {} }: Options = {}): Anthropic {
  return new Anthropic({ baseURL: proxy.url, apiKey: key, maxRetries: 0, defaultHeaders: headers });
}

const hello = {
  model: 'mock/echo',
  messages: [{ role: 'user' as const, content: 'Hello there, weighbridge' }],
};

/** Asks once, and tells how the cache came into it. */
async function ask(options: Options = {}, body: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming> = {}) {
  const { data, response } = await openai(options)
    .chat.completions.create({ ...hello, ...body })
    .withResponse();
  return { data, cache: response.headers.get('x-svc-cache'), headers: response.headers };
}

async function post(path: string, body: string, headers: Record<string, string> = {}): Promise<Response> {
  return await fetch(`${proxy.url}/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...headers },
    body,
  });
}

async function read(answer: Response): Promise<{ text: string; headers: Headers }> {
  return { text: await answer.text(), headers: answer.headers };
}

describe('a request that was answered before', () => {
  it('gets the same answer again, which bills nothing', async () => {
    const first = await ask();
    const again = await ask();
    expect([first.cache, again.cache]).toEqual(['miss', 'hit']);
    expect(again.data).toEqual(first.data);
    expect(vendor.bill).toHaveLength(1);
    expect(again.headers.get('x-svc-model')).toBe('mock/echo');
    expect(again.headers.get('x-svc-cost-micro-usd')).toBe('0');
    expect(again.headers.get('x-svc-attempts')).toBe('0');
    expect(Number(again.headers.get('age'))).toBeGreaterThanOrEqual(0);
    expect(again.headers.get('x-request-id')).toMatch(/^req_/);
    expect(again.headers.get('x-request-id')).not.toBe(first.headers.get('x-request-id'));
    expect(settled(proxy.events)).toMatchObject([
      { usage: { input: 13, output: 6 } },
      { outcome: 'SUCCESS', usage: { input: 0, output: 0 }, cost: 0n },
    ]);
    expect(proxy.events).toMatchObject([
      { cacheHit: false },
      { cacheHit: true, model: 'mock/echo', connectorId: 'con_0', attempt: 1 },
    ]);
  });

  it('is known whatever its spaces, the order of its fields, and what no answer depends on', async () => {
    await post(
      '/chat/completions',
      '{"model":"mock/echo","messages":[{"role":"user","content":"a b"}],"user":"u1"}',
    );
    const again = await post(
      '/chat/completions',
      ' { "messages" : [ { "content":"a b", "role":"user" } ],\n "metadata":{"x":"y"}, "model":"mock/echo", "stream":false }',
      { traceparent: '00-1-2-01', 'user-agent': 'other' },
    );
    expect(again.headers.get('x-svc-cache')).toBe('hit');
    for (const other of [
      '{"model":"mock/echo","messages":[{"role":"user","content":"a  b"}]}',
      '{"model":"mock/echo","messages":[{"role":"user","content":"a b"}],"temperature":1}',
      '{"model":"mock/echo","messages":[{"role":"user","content":"a b"}],"seed":9007199254740992}',
      '{"model":"mock/echo","messages":[{"role":"user","content":"a b"}],"seed":9007199254740993}',
    ]) {
      expect((await post('/chat/completions', other)).headers.get('x-svc-cache')).toBe('miss');
    }
    const beta = await post('/chat/completions', JSON.stringify(hello), { 'openai-beta': 'x' });
    const plain = await post('/chat/completions', JSON.stringify(hello));
    expect([beta, plain].map(({ headers }) => headers.get('x-svc-cache'))).toEqual(['miss', 'miss']);
  });

  it('calls the same tools again, and embeds again', async () => {
    const tools = [
      {
        type: 'function' as const,
        function: {
          name: 'weather',
          parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
        },
      },
    ];
    const messages = [{ role: 'user' as const, content: 'use weather' }];
    const [first, again] = [await ask({}, { messages, tools }), await ask({}, { messages, tools })];
    expect([first.cache, again.cache]).toEqual(['miss', 'hit']);
    expect(again.data.choices[0]?.message.tool_calls).toHaveLength(1);
    expect(again.data).toEqual(first.data);
    const embed = () =>
      openai()
        .embeddings.create({ model: 'mock/echo', input: ['one', 'two'] })
        .withResponse();
    const [embedded, embeddedAgain] = [await embed(), await embed()];
    expect(embeddedAgain.response.headers.get('x-svc-cache')).toBe('hit');
    expect(embeddedAgain.data.data).toEqual(embedded.data.data);
    expect(vendor.bill).toHaveLength(2);
  });

  it('is served where its budget has nothing left, and counts as a request but not for tokens', async () => {
    await startWith({ policyCache: OF_POLICY });
    await ask();
    expect((await ask({ key: SPENT })).cache).toBe('hit');
    const rated = await ask({ key: RATED });
    expect(rated.cache).toBe('hit');
    expect(rated.headers.get('x-ratelimit-remaining-requests')).toBe('59');
    expect(rated.headers.get('x-ratelimit-remaining-tokens')).toBe('6000');
    expect(rated.headers.get('x-ratelimit-limit-requests')).toBe('60');
  });

  it('is asked of the vendor where the caller wants it so', async () => {
    await ask();
    const fresh = await ask({ headers: { 'cache-control': 'no-cache' } });
    const apart = await ask({ headers: { 'cache-control': 'no-store' } });
    expect([fresh.cache, apart.cache]).toEqual(['miss', 'bypass']);
    expect(vendor.bill).toHaveLength(3);
    expect((await ask()).data.id).toBe(fresh.data.id);
  });
});

describe('a stream', () => {
  const tools = [
    {
      type: 'function' as const,
      function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } },
    },
  ];

  it.each([
    ['text', {}],
    ['a tool call', { tools, messages: [{ role: 'user' as const, content: 'use weather' }] }],
  ])("of %s is replayed to OpenAI's SDK, its usage only to whom asked", async (_what, body) => {
    const read = async (options: object) => {
      const asked = await openai()
        .chat.completions.create({ ...hello, ...body, stream: true, ...options })
        .withResponse();
      const chunks: OpenAI.ChatCompletionChunk[] = [];
      for await (const chunk of asked.data) chunks.push(chunk);
      return { chunks, headers: asked.response.headers };
    };
    const first = await read({});
    const again = await read({});
    const withUsage = await read({ stream_options: { include_usage: true } });
    expect([first, again, withUsage].map(({ headers }) => headers.get('x-svc-cache'))).toEqual([
      'miss',
      'hit',
      'hit',
    ]);
    expect(again.headers.get('content-type')).toContain('text/event-stream');
    expect(again.headers.get('x-svc-cost-micro-usd')).toBe('0');
    expect(again.chunks).toEqual(first.chunks);
    expect(withUsage.chunks.slice(0, -1)).toEqual(first.chunks);
    expect(withUsage.chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: expect.any(Number) },
    });
    expect(vendor.bill).toHaveLength(1);

    const final = await openai()
      .chat.completions.stream({ ...hello, ...body })
      .finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe('tools' in body ? 'tool_calls' : 'stop');
    // A document is another form than a stream.
    expect((await ask({}, body)).cache).toBe('miss');
    expect(proxy.events.filter(({ cacheHit }) => cacheHit).every(({ streamed }) => streamed)).toBe(true);
  });

  it("is replayed to Anthropic's SDK, text and tools alike", async () => {
    const read = async (content: string) => {
      const stream = anthropic().messages.stream({
        model: 'mock/echo',
        max_tokens: 100,
        messages: [{ role: 'user', content }],
        tools: [
          { name: 'weather', input_schema: { type: 'object', properties: { city: { type: 'string' } } } },
        ],
      });
      const events: unknown[] = [];
      for await (const event of stream) events.push(event);
      return { events, message: await stream.finalMessage(), headers: stream.response?.headers };
    };
    for (const content of ['Hello there', 'use weather']) {
      const [first, again] = [await read(content), await read(content)];
      expect([first, again].map(({ headers }) => headers?.get('x-svc-cache'))).toEqual(['miss', 'hit']);
      expect(again.events).toEqual(first.events);
      expect(again.message).toEqual(first.message);
      expect(again.headers?.get('request-id')).toMatch(/^req_/);
    }
    expect(vendor.bill).toHaveLength(2);
  });

  it('of a response is replayed, where the vendor keeps nothing of it', async () => {
    const read = async () => {
      const stream = await openai().responses.create({
        model: 'mock/echo',
        input: 'Hello there',
        store: false,
        stream: true,
      });
      const events: unknown[] = [];
      for await (const event of stream) events.push(event);
      return events;
    };
    expect(await read()).toEqual(await read());
    expect(vendor.bill).toHaveLength(1);
  });

  it('that was compressed on its way is replayed plain', async () => {
    for (const stream of [false, true]) {
      const body = JSON.stringify({ ...hello, max_tokens: 100, stream });
      const gzip = async () => {
        const { headers, ...answer } = await read(await post('/messages', body, { 'x-mock-gzip': 'true' }));
        return { ...answer, cache: headers.get('x-svc-cache'), encoding: headers.get('content-encoding') };
      };
      const [first, again] = [await gzip(), await gzip()];
      expect(first).toMatchObject({ cache: 'miss', encoding: 'gzip' });
      expect(again).toEqual({ text: first.text, cache: 'hit', encoding: null });
    }
  });
});

describe('nobody gets', () => {
  it("another principal's answer, unless the policy shares them", async () => {
    expect((await ask()).cache).toBe('miss');
    expect((await ask({ key: BOB })).cache).toBe('miss');
    proxy.policyCache = OF_POLICY;
    expect((await ask()).cache).toBe('miss');
    expect((await ask({ key: BOB })).cache).toBe('hit');
    proxy.policyCache = { ...OF_POLICY, policyId: 'pol_2' };
    expect((await ask({ key: BOB })).cache).toBe('miss');
  });

  it('the answer of another workload type, which are told apart whole', async () => {
    const of = (type: string) => ask({ headers: { 'x-svc-workload-type': type } });
    proxy.policyCache = OF_POLICY;
    const long = 'x'.repeat(300);
    expect((await of(`${long}1`)).cache).toBe('miss');
    expect((await of(`${long}2`)).cache).toBe('miss');
    expect((await ask()).cache).toBe('miss');
    expect((await of(`${long}1`)).cache).toBe('hit');
  });

  it('what the policy keeps no longer, or never kept', async () => {
    proxy.policyCache = undefined;
    expect((await ask()).cache).toBe('bypass');
    proxy.policyCache = OF_PRINCIPAL;
    expect((await ask()).cache).toBe('miss');
    proxy.policyCache = { ...OF_PRINCIPAL, ttlMs: 0 };
    expect((await ask()).cache).toBe('miss');
    expect(vendor.bill).toHaveLength(3);
  });

  it('the answer of a model that it may not use any more', async () => {
    expect((await ask()).cache).toBe('miss');
    proxy.allows = (model) => model !== 'mock/echo';
    await expect(ask()).rejects.toMatchObject({ code: 'model_not_allowed' });
    proxy.allows = () => true;
    expect((await ask()).cache).toBe('hit');
  });
});

describe('a profile', () => {
  const profile = (...models: string[]) => ({
    id: 'prf_1',
    name: 'p',
    strategy: Strategy.ORDERED,
    targets: models.map((model) => ({ model, weight: 1 })),
    cache: { scope: CacheScope.PRINCIPAL, ttlSeconds: 60 },
  });
  const [echo, other] = ['mock/echo', 'mock/gpt/with/slashes'] as const;
  const askIt = async (session?: string) => {
    const headers = session === undefined ? {} : { 'x-svc-session-id': session };
    const { cache, headers: answered } = await ask({ headers }, { model: 'router/p' });
    return `${cache} of ${answered.get('x-svc-model')}`;
  };

  it('gives what any of its models made, and nothing of one that it does not have any more', async () => {
    await startWith({ profiles: [profile(echo, other)] });
    expect(await askIt()).toBe(`miss of ${echo}`);
    proxy.tell({ profiles: [profile(other, echo)] });
    expect(await askIt()).toBe(`hit of ${echo}`);
    proxy.tell({ profiles: [profile(other)] });
    expect(await askIt()).toBe(`miss of ${other}`);
    expect((await ask({}, { model: echo })).cache).toBe('bypass');
  });

  it('gives a session only what its own model made', async () => {
    await startWith({ profiles: [profile(other, echo)] });
    expect(await askIt('old')).toBe(`miss of ${other}`);
    proxy.tell({ profiles: [profile(echo, other)] });
    expect(await askIt('new')).toBe(`miss of ${echo}`);
    expect(await askIt('old')).toBe(`miss of ${other}`);
    expect(await askIt('old')).toBe(`hit of ${other}`);
    expect(await askIt()).toBe(`hit of ${other}`);
  });
});

describe('what is never kept', () => {
  it.each<[string, Record<string, string>, object]>([
    ['an error', { 'x-mock-status': '500' }, {}],
    ['an answer that was cut at its limit', {}, { max_tokens: 2 }],
    ['a stream that was cut at its limit', {}, { max_tokens: 2, stream: true }],
    ['a stream with an error in it', { 'x-mock-sse-error': 'true' }, { stream: true }],
    ['a stream that broke off', { 'x-mock-reset': 'mid' }, { stream: true }],
    ['an answer that broke off', { 'x-mock-reset': 'mid' }, {}],
    ['a stream that is too large', { 'x-mock-chunks': '9000' }, { stream: true }],
  ])('%s', async (_what, headers, body) => {
    for (const path of ['/chat/completions', '/messages']) {
      const text = JSON.stringify({ max_tokens: 128_000, ...hello, ...body });
      for (let time = 0; time < 2; time++) {
        const answer = await post(path, text, headers).catch(() => undefined);
        await answer?.text().catch(() => undefined);
        expect(answer?.headers.get('x-svc-cache') ?? 'miss').toBe('miss');
      }
    }
    expect(proxy.events.some(({ cacheHit }) => cacheHit)).toBe(false);
  });

  it('an answer that is too large', async () => {
    const headers = { 'x-mock-output-tokens': '120000' };
    for (let time = 0; time < 2; time++) {
      const { cache, data } = await ask({ headers }, { n: 4 });
      expect([cache, data.choices.length]).toEqual(['miss', 4]);
    }
  });

  it('what is made of more than the request, or leaves something at the vendor', async () => {
    const input = { model: 'mock/echo', input: 'Hello' };
    for (const body of [input, { ...input, store: true }, { ...input, store: null }]) {
      for (let time = 0; time < 2; time++) {
        const answer = await post('/responses', JSON.stringify(body));
        expect([answer.status, answer.headers.get('x-svc-cache')]).toEqual([200, 'bypass']);
      }
    }
    for (const more of [
      { tools: [{ type: 'web_search' }] },
      { store: true },
      { web_search_options: {} },
      { container: 'c' },
    ]) {
      const answer = await post('/chat/completions', JSON.stringify({ ...hello, ...more }));
      expect(answer.headers.get('x-svc-cache')).toBe('bypass');
    }
    const counted = await post('/messages/count_tokens', JSON.stringify(hello));
    expect([counted.status, counted.headers.get('x-svc-cache')]).toEqual([200, 'bypass']);
  });

  it('more than fits: what was asked for last stays', async () => {
    await startWith({ policyCache: OF_PRINCIPAL, responseCacheBytes: 256 * 1024 });
    const content = (at: number) => `${at} ${'x'.repeat(8_000)}`;
    const askOf = (at: number) => ask({}, { messages: [{ role: 'user', content: content(at) }] });
    for (let at = 0; at < 60; at++) await askOf(at);
    expect((await askOf(59)).cache).toBe('hit');
    expect((await askOf(0)).cache).toBe('miss');
    const text = await proxy.metrics.text();
    const used = Number(/^weighbridge_response_cache_used_bytes (\d+)$/m.exec(text)?.[1]);
    expect(used).toBeGreaterThan(128 * 1024);
    expect(used).toBeLessThanOrEqual(256 * 1024);
    expect(text).toContain('weighbridge_response_cache_lookups_total{met="memory"} 1');
    expect(text).toContain('weighbridge_response_cache_kept_total 61');
  });
});

it('keeps one of two answers to the same that were asked for at once', async () => {
  const content = randomUUID();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => ask({}, { messages: [{ role: 'user', content }] })),
  );
  expect(answers.every(({ data }) => data.choices[0]?.message.content === content)).toBe(true);
  expect((await ask({}, { messages: [{ role: 'user', content }] })).cache).toBe('hit');
});
