import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type MockVendor, startMockVendor } from '../index.ts';
import { emptyLine } from '../shared/billLine.ts';

let vendor: MockVendor;
let openai: OpenAI;

beforeAll(async () => {
  vendor = await startMockVendor();
  openai = new OpenAI({ baseURL: vendor.url, apiKey: 'any', maxRetries: 0 });
});
beforeEach(() => vendor.clear());
afterAll(() => vendor.close());

const hello = {
  model: 'gpt-test',
  messages: [{ role: 'user' as const, content: 'Hello 日本, how are you?' }],
};
const weather = {
  type: 'function' as const,
  function: {
    name: 'weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};

async function collect<Item>(stream: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

test("a completion has OpenAI's shape, and its usage is on the bill", async () => {
  const { data, response } = await openai.chat.completions.create(hello).withResponse();

  expect(data).toMatchObject({
    id: expect.stringMatching(/^chatcmpl-/),
    object: 'chat.completion',
    created: expect.any(Number),
    model: 'gpt-test',
    system_fingerprint: expect.stringMatching(/^fp_/),
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello 日本, how are you?', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
  });
  expect(data.usage).toEqual({
    prompt_tokens: 14,
    completion_tokens: 7,
    total_tokens: 21,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  });
  expect(Number(response.headers.get('openai-processing-ms'))).toBeGreaterThanOrEqual(0);
  expect(vendor.bill).toEqual([
    {
      ...emptyLine('gpt-test'),
      requestId: response.headers.get('x-request-id'),
      account: 'any',
      inputTokens: 14,
      outputTokens: 7,
      reasoningTokens: 0,
      serviceTier: '',
      speed: '',
      geography: '',
      toolUses: {},
      extraLines: [],
      streamed: false,
      completed: true,
      at: expect.any(Date),
    },
  ]);
});

test('a stream starts with the role, has the words, and ends with the reason; no usage unless requested', async () => {
  const chunks = await collect(await openai.chat.completions.create({ ...hello, stream: true }));
  const deltas = chunks.map((chunk) => chunk.choices[0]?.delta);
  expect(deltas[0]).toEqual({ role: 'assistant', content: '', refusal: null });
  expect(deltas.slice(1, -1)).toEqual(
    ['Hello ', '日本, ', 'how ', 'are ', 'you?'].map((content) => ({ content })),
  );
  expect(deltas.at(-1)).toEqual({});
  expect(chunks.map((chunk) => chunk.choices[0]?.finish_reason)).toEqual([
    null,
    null,
    null,
    null,
    null,
    null,
    'stop',
  ]);
  expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  expect(chunks.every((chunk) => !('usage' in chunk))).toBe(true);
  expect(vendor.bill).toMatchObject([{ inputTokens: 14, outputTokens: 7, streamed: true, completed: true }]);
});

test('with include_usage every chunk has a null usage, and an extra chunk has the counts', async () => {
  const stream_options = { include_usage: true };
  const chunks = await collect(
    await openai.chat.completions.create({ ...hello, stream: true, stream_options }),
  );
  expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 14, completion_tokens: 7 } });
});

test('a stream consists of events, the last of which is [DONE]', async () => {
  const response = await fetch(`${vendor.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify({ ...hello, stream: true }),
  });
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  const events = (await response.text()).split('\n\n');
  expect(events.slice(-2)).toEqual(['data: [DONE]', '']);
  expect(events.slice(0, -2).every((event) => event.startsWith('data: {"id":"chatcmpl-'))).toBe(true);
});

test.each(['max_tokens', 'max_completion_tokens'])('%s truncates the output', async (limit) => {
  const { choices, usage } = await openai.chat.completions.create({ ...hello, [limit]: 2 });
  expect(choices[0]).toMatchObject({ finish_reason: 'length', message: { content: 'Hello ' } });
  expect(usage?.completion_tokens).toBe(2);
});

test('n multiplies the choices and what they cost, streamed or not', async () => {
  const whole = await openai.chat.completions.create({ ...hello, n: 3 });
  expect(whole.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
  const chunks = await collect(await openai.chat.completions.create({ ...hello, n: 3, stream: true }));
  const second = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === 1);
  expect(second.map((choice) => choice.delta.content ?? '').join('')).toBe('Hello 日本, how are you?');
  expect(vendor.bill).toMatchObject([{ outputTokens: 21 }, { outputTokens: 21 }]);
});

test('a tool is called, and its result quoted', async () => {
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: 'The weather in Bern?' }];
  const first = await openai.chat.completions.create({ model: 'echo', messages, tools: [weather] });
  const message = first.choices[0]?.message;
  const call = message?.tool_calls?.[0];
  expect(first.choices[0]?.finish_reason).toBe('tool_calls');
  expect(message?.content).toBeNull();
  expect(call).toMatchObject({
    id: expect.stringMatching(/^call_/),
    type: 'function',
    function: { name: 'weather', arguments: '{"city":"The weather in Bern?"}' },
  });

  if (message) messages.push(message);
  messages.push({ role: 'tool', tool_call_id: call?.id ?? '', content: '21 degrees' });
  const second = await openai.chat.completions.create({ model: 'echo', messages, tools: [weather] });
  expect(second.choices[0]?.message.content).toBe('The tool answered: "21 degrees"');
});

test('the SDK assembles a streamed tool call', async () => {
  const stream = openai.chat.completions.stream({ ...hello, tools: [weather], tool_choice: 'required' });
  const completion = await stream.finalChatCompletion();
  expect(completion.choices[0]).toMatchObject({
    finish_reason: 'tool_calls',
    message: {
      tool_calls: [{ function: { name: 'weather', arguments: '{"city":"Hello 日本, how are you?"}' } }],
    },
  });
  expect(vendor.bill).toMatchObject([{ outputTokens: 10, completed: true }]);
});

test('a request is recorded as it arrived', async () => {
  await openai.chat.completions.create(hello, { headers: { 'X-Custom': 'Value' }, query: { a: 'b' } });
  const [request] = vendor.requests;
  expect(request).toMatchObject({
    method: 'POST',
    path: '/v1/chat/completions?a=b',
    headers: { 'x-custom': 'Value' },
  });
  expect(request?.rawHeaders).toContain('Value');
  expect(JSON.parse(String(request?.body))).toEqual(hello);
});
