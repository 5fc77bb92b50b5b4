import Anthropic from '@anthropic-ai/sdk';
import { eventually } from '@weighbridge/testing';
import Anthropic0 from 'anthropic-sdk-0';
import { describe, expect, it } from 'vitest';
import { ALICE, ONE_MODEL, SPENT, settled } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret' });
const proxy = useProxy(vendor);

const hello = {
  model: 'mock/echo',
  max_tokens: 100,
  messages: [{ role: 'user' as const, content: 'Hello there, weighbridge' }],
};
const weather = {
  name: 'weather',
  input_schema: {
    type: 'object' as const,
    properties: { city: { type: 'string' } },
    required: ['city'],
  },
};

const CLIENTS = [
  ['1.x, which sends the token as a bearer', (key: string) => sdk1(key)],
  // The methods that these tests use are the same in both.
  ['0.x, which sends it in x-api-key', (key: string) => sdk0(key) as unknown as Anthropic],
] as const;

function sdk1(key: string): Anthropic {
  return new Anthropic({ baseURL: proxy.url, apiKey: key, maxRetries: 0 });
}

function sdk0(key: string): Anthropic0 {
  return new Anthropic0({ baseURL: proxy.url, apiKey: key, maxRetries: 0 });
}

describe.each(CLIENTS)('the messages route with the SDK %s', (_name, client) => {
  it('answers, and records the usage that the vendor reported', async () => {
    const { data, response } = await client(ALICE).messages.create(hello).withResponse();
    expect(data).toMatchObject({
      type: 'message',
      content: [{ type: 'text', text: 'Hello there, weighbridge' }],
    });
    expect(response.headers.get('request-id')).toMatch(/^req_/);
    expect(response.headers.get('x-svc-model')).toBe('mock/echo');
    expect(response.headers.get('x-svc-cost-micro-usd')).toBe('25');
    const [bill] = vendor.bill;
    expect(settled(proxy.events)).toEqual([
      {
        outcome: 'SUCCESS',
        estimated: false,
        usage: {
          input: bill?.inputTokens,
          cacheRead: 0,
          cacheWrite: 0,
          cacheWrite1h: 0,
          output: bill?.outputTokens,
        },
        cost: 13n * 1_000n + 6n * 2_000n,
      },
    ]);
    expect(proxy.events[0]?.responseId).toBe(data.id);
  });

  it('sends the vendor its credential, and an API version', async () => {
    await client(ALICE).messages.create(hello, {
      headers: { 'anthropic-beta': 'b-1', 'x-svc-team': 'blue' },
    });
    const headers = vendor.requests[0]?.headers;
    expect(headers).toMatchObject({
      'x-api-key': 'vendor-secret',
      // The client's own version. The next test covers a client that sends none.
      'anthropic-version': expect.stringMatching(/^20\d\d-\d\d-\d\d$/),
      'anthropic-beta': 'b-1',
    });
    expect(headers).not.toHaveProperty('authorization');
    expect(JSON.stringify(vendor.requests[0]?.rawHeaders)).not.toMatch(/sk-svc|x-svc/i);
    expect(vendor.requests[0]?.path).toBe('/v1/messages');
    expect(proxy.events[0]?.attribution?.team).toBe('blue');
  });

  it('streams every event, and counts each class of tokens once', async () => {
    const stream = client(ALICE).messages.stream(hello, {
      headers: {
        'x-mock-input-tokens': '1000',
        'x-mock-cached-tokens': '500',
        'x-mock-cache-write-tokens': '200',
        'x-mock-cache-write-1h-tokens': '100',
        'x-mock-reasoning-tokens': '7',
        'x-mock-split': '11',
      },
    });
    const types = new Set<string>();
    stream.on('streamEvent', (event) => types.add(event.type));
    const message = await stream.finalMessage();
    expect(message.content.at(-1)).toMatchObject({ type: 'text', text: 'Hello there, weighbridge' });
    expect([...types]).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ]);
    expect(settled(proxy.events)).toEqual([
      {
        outcome: 'SUCCESS',
        estimated: false,
        usage: { input: 200, cacheRead: 500, cacheWrite: 200, cacheWrite1h: 100, output: 13 },
        cost: 200n * 1_000n + 500n * 100n + 200n * 1_250n + 100n * 2_001n + 13n * 2_000n,
      },
    ]);
  });

  it('lets a model call tools, streamed and not', async () => {
    const request = {
      ...hello,
      tools: [weather],
      tool_choice: { type: 'tool' as const, name: 'weather' },
    };
    const whole = await client(ALICE).messages.create(request);
    const streamed = await client(ALICE).messages.stream(request).finalMessage();
    for (const message of [whole, streamed]) {
      expect(message.stop_reason).toBe('tool_use');
      expect(message.content).toMatchObject([
        { type: 'tool_use', name: 'weather', input: { city: 'Hello there, weighbridge' } },
      ]);
    }
  });

  it('counts tokens free of charge, whatever the budget has left', async () => {
    const { model, messages } = hello;
    const count = await client(SPENT).messages.countTokens({ model, messages });
    expect(count.input_tokens).toBe(13);
    expect(proxy.events).toEqual([]);
  });

  it('lists the models in the shape of this vendor', async () => {
    const page = await client(ONE_MODEL).models.list({ limit: 5 });
    expect(page.data.map(({ id }) => id)).toEqual(['mock/echo']);
    const all: string[] = [];
    for await (const { id } of client(ALICE).models.list({ limit: 1 })) all.push(id);
    expect(all).toEqual(['mock/echo', 'mock/gpt/with/slashes', 'other/model']);
    const one = await client(ALICE).models.retrieve('mock/gpt/with/slashes');
    expect(one).toMatchObject({ type: 'model', id: 'mock/gpt/with/slashes' });
  });

  it('answers with errors that the SDK maps to its classes', async () => {
    const ask = (key: string, changes: object = {}) => client(key).messages.create({ ...hello, ...changes });
    await expect(ask('sk-svc-nobody')).rejects.toMatchObject({ status: 401 });
    await expect(ask(ALICE, { model: 'mock/none' })).rejects.toMatchObject({
      status: 404,
      error: {
        type: 'error',
        error: { type: 'not_found_error', code: 'model_not_found' },
        request_id: expect.stringMatching(/^req_/),
      },
      requestID: expect.stringMatching(/^req_/),
    });
    await expect(ask(ONE_MODEL, { model: 'other/model' })).rejects.toMatchObject({ status: 403 });
    await expect(ask(SPENT)).rejects.toMatchObject({
      status: 429,
      error: { error: { type: 'rate_limit_error', code: 'budget_exhausted', policy_id: 'pol_1' } },
    });
    await expect(ask(ALICE, { model: 'other/model' })).rejects.toMatchObject({ status: 404 });
    expect(vendor.requests).toHaveLength(0);
  });

  it("passes the vendor's own error through, and charges nothing", async () => {
    const asked = client(ALICE).messages.create(hello, { headers: { 'x-mock-status': '529' } });
    await expect(asked).rejects.toMatchObject({
      status: 529,
      error: { type: 'error', error: { type: 'overloaded_error' } },
    });
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'UPSTREAM_ERROR', estimated: false, cost: 0n }]);
  });

  it('reports an error within a stream, and records it', async () => {
    const stream = client(ALICE).messages.stream(hello, { headers: { 'x-mock-sse-error': 'true' } });
    await expect(stream.finalMessage()).rejects.toThrow(/had an error/);
    await eventually(() =>
      expect(settled(proxy.events)).toMatchObject([
        { outcome: 'UPSTREAM_ERROR', estimated: true, usage: { input: 13 } },
      ]),
    );
    proxy.events.length = 0;
    const broken = client(ALICE).messages.stream(hello, { headers: { 'x-mock-reset': 'mid' } });
    await expect(broken.finalMessage()).rejects.toThrow(/closed the connection early/);
    await eventually(() =>
      expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]),
    );
  });
});

it('prefers the bearer token, and accepts x-api-key on no other route', async () => {
  const body = JSON.stringify(hello);
  const post = (path: string, headers: Record<string, string>) =>
    fetch(proxy.url + path, { method: 'POST', body, headers });
  const both = await post('/v1/messages', { authorization: `Bearer sk-svc-wrong`, 'x-api-key': ALICE });
  expect(both.status).toBe(401);
  const other = await post('/v1/chat/completions', { 'x-api-key': ALICE });
  expect(other.status).toBe(401);
});

it('sends an API version where the client sends none', async () => {
  const headers = { 'x-api-key': ALICE, 'content-type': 'application/json' };
  await fetch(`${proxy.url}/v1/messages`, { method: 'POST', body: JSON.stringify(hello), headers });
  expect(vendor.requests[0]?.headers['anthropic-version']).toBe('2023-06-01');
});

it('answers every error in the Anthropic envelope', async () => {
  const ask = async (path: string, init: RequestInit) => {
    const answer = await fetch(proxy.url + path, {
      ...init,
      headers: {
        'x-api-key': ALICE,
        'content-type': 'application/json',
        ...(init.headers as Record<string, string>),
      },
    });
    return { status: answer.status, id: answer.headers.get('request-id'), body: await answer.json() };
  };
  const cases = [
    [405, await ask('/v1/messages', { method: 'PUT' })],
    [404, await ask('/v1/messages/batches', { method: 'POST' })],
    [400, await ask('/v1/messages', { method: 'POST', body: '{' })],
    [
      415,
      await ask('/v1/messages', { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } }),
    ],
    [400, await ask('/v1/messages', { method: 'POST', body: '{"model":"mock/echo","model":"mock/echo"}' })],
  ] as const;
  for (const [status, answer] of cases) {
    expect(answer).toEqual({
      status,
      id: expect.stringMatching(/^req_/),
      body: {
        type: 'error',
        error: expect.objectContaining({ type: expect.any(String), message: expect.any(String) }),
        request_id: answer.id,
      },
    });
  }
});
