import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { type MockVendor, startMockVendor } from './index.ts';

/** On a busy machine, too. */
const PATIENTLY = { timeout: 60_000 };

let vendor: MockVendor;
let openai: OpenAI;

beforeAll(async () => {
  vendor = await startMockVendor();
  openai = new OpenAI({ baseURL: vendor.url, apiKey: 'any', maxRetries: 0 });
});
beforeEach(() => vendor.clear());
afterAll(() => vendor.close());

const hello = { model: 'echo', messages: [{ role: 'user' as const, content: 'one two drei 日本' }] };
const streamed = { ...hello, stream: true, stream_options: { include_usage: true } } as const;

type Headers = Record<string, string>;
const whole = (headers: Headers) => openai.chat.completions.create(hello, { headers });

/** Reads a stream as far as it goes. */
async function readStream(headers: Headers) {
  const contents: string[] = [];
  let usage: OpenAI.CompletionUsage | null | undefined;
  let error: unknown;
  try {
    for await (const chunk of await openai.chat.completions.create(streamed, { headers })) {
      const content = chunk.choices[0]?.delta.content;
      if (content) contents.push(content);
      usage = chunk.usage;
    }
  } catch (caught) {
    error = caught;
  }
  return { contents, usage, error };
}

test.each([
  ['400', OpenAI.BadRequestError],
  ['401', OpenAI.AuthenticationError],
  ['403', OpenAI.PermissionDeniedError],
  ['404', OpenAI.NotFoundError],
  ['409', OpenAI.ConflictError],
  ['422', OpenAI.UnprocessableEntityError],
  ['429', OpenAI.RateLimitError],
  ['500', OpenAI.InternalServerError],
  ['503', OpenAI.InternalServerError],
])('x-mock-status: %s arrives as the class of the SDK, and is not billed', async (status, Class) => {
  const error = await whole({ 'x-mock-status': status }).catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(Class);
  if (!(error instanceof OpenAI.APIError)) throw error;
  expect(error.requestID).toMatch(/^req_/);
  expect(error.headers?.get('retry-after')).toBe(status === '429' ? '1' : null);
  expect(vendor.bill).toEqual([]);
});

test('x-mock-delay-ms delays the first byte, and disconnecting before costs nothing', async () => {
  const start = performance.now();
  await whole({ 'x-mock-delay-ms': '80' });
  expect(performance.now() - start).toBeGreaterThanOrEqual(79);

  const options = { headers: { 'x-mock-delay-ms': '60000' }, timeout: 50 };
  const late = openai.chat.completions.create(hello, options);
  await expect(late).rejects.toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
  expect(vendor.bill).toHaveLength(1);
});

test('x-mock-chunk-delay-ms delays every chunk', async () => {
  const start = performance.now();
  const { contents } = await readStream({ 'x-mock-chunk-delay-ms': '20' });
  expect(contents).toHaveLength(4);
  expect(performance.now() - start).toBeGreaterThanOrEqual(79);
});

test('x-mock-chunks and x-mock-output-tokens set the output', async () => {
  const { contents, usage } = await readStream({ 'x-mock-chunks': '5', 'x-mock-output-tokens': '33' });
  expect(contents).toHaveLength(5);
  expect(usage?.completion_tokens).toBe(33);
  expect((await readStream({ 'x-mock-chunks': '40' })).contents).toHaveLength(40);
});

test('input, cached and reasoning tokens are reported and billed', async () => {
  const headers = {
    'x-mock-input-tokens': '1000',
    'x-mock-cached-tokens': '600',
    'x-mock-output-tokens': '10',
    'x-mock-reasoning-tokens': '50',
  };
  const expected = {
    prompt_tokens: 1000,
    prompt_tokens_details: { cached_tokens: 600 },
    completion_tokens: 60,
    completion_tokens_details: { reasoning_tokens: 50 },
    total_tokens: 1060,
  };
  expect((await whole(headers)).usage).toMatchObject(expected);
  expect((await readStream(headers)).usage).toMatchObject(expected);
  const entry = { inputTokens: 1000, cachedInputTokens: 600, outputTokens: 60, reasoningTokens: 50 };
  expect(vendor.bill).toMatchObject([entry, entry]);
});

test('omitted or zero usage does not change the bill', async () => {
  expect(await whole({ 'x-mock-no-usage': 'true' })).not.toHaveProperty('usage');
  expect((await whole({ 'x-mock-zero-usage': 'true' })).usage).toMatchObject({
    prompt_tokens: 0,
    total_tokens: 0,
  });
  expect((await readStream({ 'x-mock-no-usage': 'true' })).usage).toBeUndefined();
  expect((await readStream({ 'x-mock-zero-usage': 'true' })).usage).toMatchObject({ completion_tokens: 0 });
  expect(vendor.bill.map((entry) => entry.outputTokens)).toEqual([5, 5, 5, 5]);
});

test('x-mock-reset: before sends no response, and bills nothing', async () => {
  await expect(whole({ 'x-mock-reset': 'before' })).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
  expect(vendor.bill).toEqual([]);
  expect(vendor.requests).toHaveLength(1);
});

test('x-mock-reset: headers sends the headers only', async () => {
  const response = await fetch(`${vendor.url}/chat/completions`, {
    method: 'POST',
    headers: { 'x-mock-reset': 'headers' },
    body: JSON.stringify(streamed),
  });
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
  expect(vendor.bill).toMatchObject([{ inputTokens: 12, outputTokens: 0, completed: false }]);
});

test('x-mock-reset: mid interrupts the response in the middle, and bills the first half', async () => {
  const { contents, error } = await readStream({ 'x-mock-reset': 'mid' });
  expect(contents).toEqual(['one ', 'two ']);
  expect(error).toBeInstanceOf(Error);
  expect(vendor.bill).toMatchObject([{ outputTokens: 2, completed: false }]);

  await expect(whole({ 'x-mock-reset': 'mid' })).rejects.toThrow();
  expect(vendor.bill[1]).toMatchObject({ outputTokens: 5, completed: false });
});

test('x-mock-stall: mid stalls in the middle, until the client disconnects', async () => {
  const stream = await openai.chat.completions.create(streamed, { headers: { 'x-mock-stall': 'mid' } });
  const chunks = stream[Symbol.asyncIterator]();
  for (let at = 0; at < 3; at += 1) await chunks.next();
  const next = chunks.next();
  const early = await Promise.race([next, new Promise((resolve) => setTimeout(resolve, 60, 'nothing'))]);
  expect(early).toBe('nothing');
  stream.controller.abort();
  expect((await next).done).toBe(true);
  expect(vendor.bill).toMatchObject([{ outputTokens: 2, completed: false }]);
});

test('x-mock-sse-error: true is an error after 200', async () => {
  const { contents, error } = await readStream({ 'x-mock-sse-error': 'true' });
  expect(contents).toEqual(['one ', 'two ']);
  expect(error).toBeInstanceOf(OpenAI.APIError);
  expect(error).toMatchObject({ type: 'server_error', message: expect.stringContaining('had an error') });
  expect(vendor.bill).toMatchObject([{ outputTokens: 2, completed: false }]);
});

test('generation ends when the client disconnects; the bill has what was generated', async () => {
  const headers = { 'x-mock-chunks': '1000', 'x-mock-chunk-delay-ms': '5' };
  let seen = 0;
  for await (const chunk of await openai.chat.completions.create(streamed, { headers })) {
    if (chunk.choices[0]?.delta.content) seen += 1;
    if (seen === 10) break;
  }
  const settled = await vi.waitFor(async () => {
    const before = vendor.bill[0]?.outputTokens;
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(vendor.bill[0]?.outputTokens).toBe(before);
    return vendor.bill[0];
  }, PATIENTLY);
  expect(settled).toMatchObject({ completed: false });
  expect(settled?.outputTokens).toBeGreaterThanOrEqual(10);
  expect(settled?.outputTokens).toBeLessThan(100);
});

test('a client that does not read stops generation', async () => {
  const body = JSON.stringify({ ...hello, stream: true });
  const socket = connect(Number(new URL(vendor.url).port), '127.0.0.1');
  socket.pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-mock-chunks: 128000\r\ncontent-length: ${body.length}\r\n\r\n`,
  );
  socket.write(Buffer.from(body, 'latin1'));
  await vi.waitFor(async () => {
    const before = vendor.bill[0]?.outputTokens;
    expect(before).toBeGreaterThan(0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(vendor.bill[0]?.outputTokens).toBe(before);
  }, PATIENTLY);
  expect(vendor.bill[0]?.outputTokens).toBeLessThan(128_000);
  socket.destroy();
});

test.each(['1', '7', '100000'])('x-mock-split: %s loses nothing', async (split) => {
  const headers = { 'x-mock-split': split };
  expect((await whole(headers)).choices[0]?.message.content).toBe('one two drei 日本');
  const { contents, usage } = await readStream(headers);
  expect(contents.join('')).toBe('one two drei 日本');
  expect(usage?.completion_tokens).toBe(5);
});

test('x-mock-split writes pieces of exactly that size', async () => {
  const socket = connect(Number(new URL(vendor.url).port), '127.0.0.1');
  socket.write('GET /v1/models HTTP/1.1\r\nhost: x\r\nx-mock-split: 16\r\nconnection: close\r\n\r\n');
  const body = (await text(socket)).split('\r\n\r\n').slice(1).join('');
  const sizes = body.split('\r\n').filter((_, line) => line % 2 === 0);
  expect(sizes.slice(0, -2).every((size) => size === '10')).toBe(true);
  expect(sizes.length).toBeGreaterThan(5);
});

test('x-mock-gzip can be read chunk by chunk, alone or with others', async () => {
  const headers = { 'x-mock-gzip': 'true' };
  const { data, response } = await whole(headers).withResponse();
  expect(response.headers.get('content-encoding')).toBe('gzip');
  expect(data.choices[0]?.message.content).toBe('one two drei 日本');
  expect((await readStream(headers)).contents.join('')).toBe('one two drei 日本');
  expect((await readStream({ ...headers, 'x-mock-split': '3' })).contents.join('')).toBe('one two drei 日本');
  // A reset discards what the client has not read: it has a second for that.
  const slow = { ...headers, 'x-mock-chunk-delay-ms': '1000', 'x-mock-reset': 'mid' };
  expect((await readStream(slow)).contents.slice(0, 1)).toEqual(['one ']);
});

test('x-mock-content-type replaces the type but not the body', async () => {
  const response = await fetch(`${vendor.url}/models`, { headers: { 'x-mock-content-type': 'text/html' } });
  expect(response.headers.get('content-type')).toBe('text/html');
  expect(await response.json()).toMatchObject({ object: 'list' });
});

test('an invalid value is a 400 with the valid ones', async () => {
  await expect(whole({ 'x-mock-reset': 'soon' })).rejects.toThrow(
    'x-mock-reset must be before or headers or mid.',
  );
  await expect(whole({ 'x-mock-oops': '1' })).rejects.toBeInstanceOf(OpenAI.BadRequestError);
});
