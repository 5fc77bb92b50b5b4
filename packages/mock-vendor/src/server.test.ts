import { once } from 'node:events';
import { connect } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type MockVendor, startMockVendor } from './index.ts';

let vendor: MockVendor;
let openai: OpenAI;

beforeAll(async () => {
  vendor = await startMockVendor({ apiKey: 'right', keep: 3 });
  openai = new OpenAI({ baseURL: vendor.url, apiKey: 'right', maxRetries: 0 });
});
beforeEach(() => vendor.clear());
afterAll(() => vendor.close());

const authorization = 'Bearer right';
const hello = { model: 'echo', messages: [{ role: 'user' as const, content: 'Hello' }] };

test('the models list has echo', async () => {
  const { data } = await openai.models.list();
  expect(data.map((model) => model.id)).toEqual(['echo']);
});

test('embeddings are the same each time, in float and in base64', async () => {
  const input = ['Hello', 'other'];
  const floats = await openai.embeddings.create({ model: 'embed', input, encoding_format: 'float' });
  // By default, the SDK requests base64 and decodes it.
  const decoded = await openai.embeddings.create({ model: 'embed', input });
  expect(String(vendor.requests[1]?.body)).toContain('base64');
  expect([...(decoded.data[0]?.embedding ?? [])]).toEqual(floats.data[0]?.embedding);
  expect(floats.data[0]?.embedding).not.toEqual(floats.data[1]?.embedding);
  expect(floats.usage).toEqual({ prompt_tokens: 4, total_tokens: 4 });
  expect(vendor.bill).toMatchObject([
    { model: 'embed', inputTokens: 4, outputTokens: 0, completed: true },
    { inputTokens: 4 },
  ]);
});

test('embeddings take token ids and a number of dimensions', async () => {
  const { data, usage } = await openai.embeddings.create({
    model: 'embed',
    input: [1, 2, 3],
    dimensions: 20,
  });
  expect(data).toHaveLength(1);
  expect(data[0]?.embedding).toHaveLength(20);
  expect(usage.prompt_tokens).toBe(3);
});

test.each([[undefined], [''], [[]], [['ok', '']], [{}]])('an embedding of %j is rejected', async (input) => {
  const response = await fetch(`${vendor.url}/embeddings`, {
    method: 'POST',
    headers: { authorization },
    body: JSON.stringify({ model: 'embed', input }),
  });
  expect(response.status).toBe(400);
});

test('a wrong or missing bearer token is a 401', async () => {
  const stranger = new OpenAI({ baseURL: vendor.url, apiKey: 'wrong', maxRetries: 0 });
  await expect(stranger.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
  const response = await fetch(`${vendor.url}/models`);
  expect(response.status).toBe(401);
  expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', code: null } });
});

test.each([
  ['GET', '/nothing', 404, null],
  ['GET', '/chat/completions', 405, 'POST'],
  ['DELETE', '/models', 405, 'GET'],
])('%s %s is a %i in the envelope', async (method, path, status, allow) => {
  const response = await fetch(vendor.url + path, { method, headers: { authorization } });
  expect(response.status).toBe(status);
  expect(response.headers.get('allow')).toBe(allow);
  expect(await response.json()).toEqual({
    error: {
      message: expect.any(String),
      type: 'invalid_request_error',
      param: null,
      code: expect.any(String),
    },
  });
});

test('malformed JSON is a 400', async () => {
  const response = await fetch(`${vendor.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization },
    body: '{"model":',
  });
  expect(response.status).toBe(400);
});

test('a body over 64 MiB is a 413', async () => {
  const body = Buffer.alloc(64 * 1024 * 1024 + 1, 0x20);
  const response = await fetch(`${vendor.url}/embeddings`, {
    method: 'POST',
    headers: { authorization },
    body,
  });
  expect(response.status).toBe(413);
  expect(vendor.requests).toEqual([]);
});

test('only the newest requests are retained', async () => {
  for (const content of ['1', '2', '3', '4']) {
    await openai.chat.completions.create({ ...hello, messages: [{ role: 'user', content }] });
  }
  expect(vendor.requests).toHaveLength(3);
  expect(String(vendor.requests.at(-1)?.body)).toContain('"4"');
  expect(vendor.bill).toHaveLength(4);
});

test('with keep 0 nothing is retained', async () => {
  const embedded = await startMockVendor({ keep: 0 });
  await new OpenAI({ baseURL: embedded.url, apiKey: 'any' }).chat.completions.create(hello);
  expect(embedded.requests).toEqual([]);
  expect(embedded.bill).toEqual([]);
  await embedded.close();
});

test('close closes idle and open sockets, and is idempotent', async () => {
  const closing = await startMockVendor();
  const silent = connect(Number(new URL(closing.url).port), '127.0.0.1');
  await once(silent, 'connect');
  const client = new OpenAI({ baseURL: closing.url, apiKey: 'any', maxRetries: 0 });
  const headers = { 'x-mock-stall': 'mid' };
  const stream = await client.chat.completions.create({ ...hello, stream: true }, { headers });
  const silentClosed = once(silent.resume(), 'close');

  await closing.close();
  await closing.close();
  await silentClosed;
  const rest = async () => {
    for await (const chunk of stream) expect(chunk.object).toBe('chat.completion.chunk');
  };
  await expect(rest()).rejects.toThrow();
});

test('a port in use is an error', async () => {
  await expect(startMockVendor({ port: Number(new URL(vendor.url).port) })).rejects.toThrow('EADDRINUSE');
});
