import { randomUUID } from 'node:crypto';
import type OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { POLICY_CACHE, useCachingProxy } from './cachingProxy.ts';
import { HELLO } from './post.ts';
import { RATED, SPENT, settled } from './proxy.ts';
import { useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret' });
const caching = useCachingProxy(vendor);
const { anthropic, ask, openai, post, startWith } = caching;

async function read(answer: Response): Promise<{ text: string; headers: Headers }> {
  return { text: await answer.text(), headers: answer.headers };
}

describe('a repeated request', () => {
  it('gets the cached response, which costs nothing', async () => {
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
    expect(settled(caching.proxy.events)).toMatchObject([
      { usage: { input: 13, output: 6 } },
      { outcome: 'SUCCESS', usage: { input: 0, output: 0 }, cost: 0n },
    ]);
    expect(caching.proxy.events).toMatchObject([
      { cacheHit: false },
      { cacheHit: true, model: 'mock/echo', connectorId: 'con_0', attempt: 1 },
    ]);
  });

  it('is recognized despite white space, the order of fields, and fields without influence', async () => {
    await post(
      '/v1/chat/completions',
      '{"model":"mock/echo","messages":[{"role":"user","content":"a b"}],"user":"u1"}',
    );
    const again = await post(
      '/v1/chat/completions',
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
      expect((await post('/v1/chat/completions', other)).headers.get('x-svc-cache')).toBe('miss');
    }
    const beta = await post('/v1/chat/completions', HELLO, { 'openai-beta': 'x' });
    const plain = await post('/v1/chat/completions', HELLO);
    expect([beta, plain].map(({ headers }) => headers.get('x-svc-cache'))).toEqual(['miss', 'miss']);
  });

  it('works for tool calls and embeddings', async () => {
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

  it('is served from an exhausted budget, and counts as a request but uses no tokens', async () => {
    await startWith({ policyCache: POLICY_CACHE });
    await ask();
    expect((await ask({ key: SPENT })).cache).toBe('hit');
    const rated = await ask({ key: RATED });
    expect(rated.cache).toBe('hit');
    expect(rated.headers.get('x-ratelimit-remaining-requests')).toBe('59');
    expect(rated.headers.get('x-ratelimit-remaining-tokens')).toBe('6000');
    expect(rated.headers.get('x-ratelimit-limit-requests')).toBe('60');
  });

  it('goes to the vendor where the client asks for that', async () => {
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
  ])("of %s is replayed to OpenAI's SDK, its usage only where it asked for it", async (_what, body) => {
    const read = async (options: object) => {
      const asked = await openai()
        .chat.completions.create({ ...HELLO, ...body, stream: true, ...options })
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
    expect(withUsage.chunks.slice(0, -1)).toEqual(first.chunks.map((chunk) => ({ ...chunk, usage: null })));
    expect(withUsage.chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: expect.any(Number) },
    });
    expect(vendor.bill).toHaveLength(1);

    const final = await openai()
      .chat.completions.stream({ ...HELLO, ...body })
      .finalChatCompletion();
    expect(final.choices[0]?.finish_reason).toBe('tools' in body ? 'tool_calls' : 'stop');
    // A document does not answer a request for a stream.
    expect((await ask({}, body)).cache).toBe('miss');
    expect(caching.proxy.events.filter(({ cacheHit }) => cacheHit).every(({ streamed }) => streamed)).toBe(
      true,
    );
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

  it('of a response is replayed where the vendor does not store it', async () => {
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

  it('that was compressed is replayed plain', async () => {
    for (const stream of [false, true]) {
      const body = { ...HELLO, max_tokens: 100, stream };
      const gzip = async () => {
        const { headers, ...answer } = await read(
          await post('/v1/messages', body, { 'x-mock-gzip': 'true' }),
        );
        return { ...answer, cache: headers.get('x-svc-cache'), encoding: headers.get('content-encoding') };
      };
      const [first, again] = [await gzip(), await gzip()];
      expect(first).toMatchObject({ cache: 'miss', encoding: 'gzip' });
      expect(again).toEqual({ text: first.text, cache: 'hit', encoding: null });
    }
  });
});

it('stores one of two responses to concurrent equal requests', async () => {
  const content = randomUUID();
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => ask({}, { messages: [{ role: 'user', content }] })),
  );
  expect(answers.every(({ data }) => data.choices[0]?.message.content === content)).toBe(true);
  expect((await ask({}, { messages: [{ role: 'user', content }] })).cache).toBe('hit');
});
