import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type MockVendor, startMockVendor } from './index.ts';

const MICRO_PER_TOKEN = 1_000_000_000n;
const prices = {
  cheap: { input: MICRO_PER_TOKEN, output: MICRO_PER_TOKEN, tools: { web_search: 1_000n } },
  dear: { input: MICRO_PER_TOKEN, output: 100n * MICRO_PER_TOKEN },
};

let strict: MockVendor;
let greedy: MockVendor;
beforeAll(async () => {
  strict = await startMockVendor({ traits: { strict: true, prices } });
  greedy = await startMockVendor({ traits: { greedy: true, readsAnyCase: true, prices } });
});
beforeEach(() => {
  strict.clear();
  greedy.clear();
});
afterAll(() => Promise.all([strict.close(), greedy.close()]));

type Json = Record<string, unknown>;
async function post(vendor: MockVendor, path: string, body: Json, headers: Record<string, string> = {}) {
  const response = await fetch(`${vendor.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer sk-account', ...headers },
    body: JSON.stringify({ model: 'cheap', ...body }),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

const messages = [{ role: 'user', content: 'Hello' }];
const message = { messages, max_tokens: 100 };
const error = (body: Json) => (body.error as Json).message;

test('a strict vendor refuses fields and tools that it does not know, in its own words', async () => {
  const chat = await post(strict, '/chat/completions', { messages, thinking: {} });
  expect([chat.status, error(chat.body)]).toEqual([400, "Unknown parameter: 'thinking'."]);
  const said = await post(strict, '/messages', { ...message, reasoning_effort: 'high' });
  expect([said.status, error(said.body)]).toEqual([400, 'reasoning_effort: Extra inputs are not permitted']);
  const tool = await post(strict, '/responses', { input: 'Hello', tools: [{ type: 'teleport' }] });
  expect([tool.status, error(tool.body)]).toEqual([400, "Unknown parameter: 'tools[0].type'."]);
  expect((await post(strict, '/embeddings', { input: 'Hello', n: 2 })).status).toBe(400);
  expect((await post(strict, '/responses', { input: 'x', background: true, store: false })).status).toBe(400);
  expect(strict.bill).toEqual([]);
});

test("a strict vendor takes what today's agents send", async () => {
  const claude = {
    ...message,
    thinking: { type: 'adaptive' },
    context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
    output_config: { effort: 'medium' },
    tools: [
      { name: 'Bash', input_schema: {} },
      { type: 'web_search_20260209', name: 'web_search', max_uses: 8 },
    ],
  };
  expect((await post(strict, '/messages', claude)).status).toBe(200);
  const codex = {
    input: 'Hello',
    tools: [
      { type: 'namespace', name: 'shell', tools: [] },
      { type: 'custom', name: 'patch' },
      { type: 'web_search' },
    ],
    include: ['reasoning.encrypted_content'],
    text: { verbosity: 'low' },
    client_metadata: { 'x-codex-installation-id': '1' },
    max_tool_calls: 3,
  };
  expect((await post(strict, '/responses', codex)).status).toBe(200);
});

test('the bill and the answer tell the tier, the speed and the place of serving, and the account', async () => {
  const asked = { messages, service_tier: 'priority' };
  expect((await post(strict, '/chat/completions', asked)).body.service_tier).toBe('priority');
  const downgraded = await post(strict, '/chat/completions', asked, { 'x-mock-served-tier': 'default' });
  expect(downgraded.body.service_tier).toBe('default');
  const fast = await post(strict, '/messages', { ...message, speed: 'fast', inference_geo: 'us' });
  expect(fast.body.usage).toMatchObject({ speed: 'fast', inference_geo: 'us', service_tier: 'standard' });
  expect(strict.bill.map(({ serviceTier, speed, geography }) => [serviceTier, speed, geography])).toEqual([
    ['priority', '', ''],
    ['default', '', ''],
    ['', 'fast', 'us'],
  ]);
  expect(strict.bill[0]?.account).toBe('sk-account');
});

test('tools that run at the vendor are used as scripted, within what the request allows', async () => {
  const uses = { 'x-mock-tool-uses': 'web_search=5,code_interpreter=1,file_search=1' };
  const tools = [{ type: 'web_search' }, { type: 'code_interpreter', container: { type: 'auto' } }];
  const { body } = await post(strict, '/responses', { input: 'Hello', tools, max_tool_calls: 3 }, uses);
  expect(strict.bill[0]?.toolUses).toEqual({ web_search: 3 });
  expect(body.tool_usage).toMatchObject({ web_search: { num_requests: 3 } });
  expect((body.output as Json[]).map(({ type }) => type)).toEqual([
    'web_search_call',
    'web_search_call',
    'web_search_call',
    'message',
  ]);
  const [first] = strict.bill;
  if (!first) throw new Error('nothing was billed');
  expect(strict.costOf(first)).toBe(BigInt(first.inputTokens + first.outputTokens) * 1_000n + 3_000n);

  const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 2 };
  const found = await post(strict, '/messages', { ...message, tools: [search] }, uses);
  expect(found.body.usage).toMatchObject({ server_tool_use: { web_search_requests: 2 } });
});

test('another model answers, and iterations are outside of the top-level usage', async () => {
  const body = { ...message, fallbacks: [{ model: 'dear', max_tokens: 7 }] };
  const script = { 'x-mock-fallback': '1', 'x-mock-compaction-tokens': '50', 'x-mock-output-tokens': '90' };
  const answered = await post(strict, '/messages', body, script);
  expect(answered.body).toMatchObject({
    model: 'dear',
    usage: {
      output_tokens: 7,
      iterations: [
        { type: 'compaction', input_tokens: 50, output_tokens: 50 },
        { type: 'fallback_message', model: 'dear', output_tokens: 7 },
      ],
    },
  });
  expect(strict.bill[0]).toMatchObject({
    model: 'dear',
    outputTokens: 7,
    extraLines: [{ model: 'cheap', inputTokens: 50, outputTokens: 50 }],
  });
});

test('tokens of media are parts of the input and of the output', async () => {
  const script = {
    'x-mock-input-tokens': '100',
    'x-mock-cached-tokens': '20',
    'x-mock-input-audio-tokens': '30',
    'x-mock-cached-audio-tokens': '5',
    'x-mock-output-tokens': '1',
    'x-mock-output-audio-tokens': '40',
  };
  const { body } = await post(strict, '/chat/completions', { messages }, script);
  expect(body.usage).toMatchObject({
    prompt_tokens: 100,
    completion_tokens: 41,
    prompt_tokens_details: {
      cached_tokens: 20,
      audio_tokens: 35,
      cached_tokens_details: { audio_tokens: 5 },
    },
    completion_tokens_details: { audio_tokens: 40 },
  });
});

test('a background response is queued, then in progress, then complete with its usage', async () => {
  const script = { 'x-mock-background-ms': '400', 'x-mock-pending-usage': 'zero' };
  const { body } = await post(strict, '/responses', { input: 'Hello', background: true }, script);
  expect(body).toMatchObject({ status: 'queued', usage: { total_tokens: 0 } });
  const read = async () => (await (await fetch(`${strict.url}/responses/${body.id}`)).json()) as Json;
  await expect.poll(read).toMatchObject({ status: 'in_progress', usage: { total_tokens: 0 } });
  await expect.poll(read).toMatchObject({ status: 'completed' });
  expect(((await read()).usage as Json).total_tokens).toBeGreaterThan(0);
});

test('a body can have any size, with its usage at either end, and shrink in transit', async () => {
  const size = { 'x-mock-pad-bytes': '3000000' };
  for (const usageAt of ['start', 'end']) {
    const response = await fetch(`${strict.url}/chat/completions`, {
      method: 'POST',
      headers: { ...size, 'x-mock-usage-at': usageAt },
      body: JSON.stringify({ model: 'cheap', messages }),
    });
    const text = await response.text();
    expect(text.length).toBeGreaterThan(3_000_000);
    expect(text.indexOf('"usage"') < 3_000).toBe(usageAt === 'start');
    expect(JSON.parse(text)).toMatchObject({ usage: { completion_tokens: 2 } });
  }
  const event = await fetch(`${strict.url}/messages`, {
    method: 'POST',
    headers: { ...size, 'x-mock-padding': 'objects' },
    body: JSON.stringify({ model: 'cheap', ...message, stream: true }),
  });
  const last = (await event.text()).split('\n').find((line) => line.includes('"padding":'));
  expect(JSON.parse(last?.slice(6) ?? '')).toMatchObject({
    type: 'message_delta',
    usage: { output_tokens: 2 },
  });

  const http = await import('node:http');
  const packed = await new Promise<Buffer>((resolve, reject) => {
    const headers = { ...size, 'x-mock-encoding': 'br' };
    const request = http.request(
      `${strict.url}/chat/completions`,
      { method: 'POST', headers },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('end', () => resolve(Buffer.concat(parts)));
      },
    );
    request.on('error', reject);
    request.end(JSON.stringify({ model: 'cheap', messages }));
  });
  expect(packed.length).toBeLessThan(10_000);
  expect(brotliDecompressSync(packed).length).toBeGreaterThan(3_000_000);
});

test('a vendor may honour one of the two limits only', async () => {
  const limits = { messages, max_tokens: 5, max_completion_tokens: 1 };
  const script = { 'x-mock-output-tokens': '50' };
  const outputOf = async (honours: string) => {
    await post(strict, '/chat/completions', limits, { ...script, 'x-mock-honours': honours });
    return strict.bill.at(-1)?.outputTokens;
  };
  expect(await outputOf('max_tokens')).toBe(5);
  expect(await outputOf('max_completion_tokens')).toBe(1);
});

test('what a model thinks before a stream begins is charged as it thinks, up to a disconnect', async () => {
  const bodies = {
    '/chat/completions': { model: 'cheap', messages, stream: true },
    '/responses': { model: 'cheap', input: 'weigh', stream: true },
    '/messages': { ...message, model: 'cheap', stream: true, max_tokens: 20_000 },
  };
  for (const [path, body] of Object.entries(bodies)) {
    strict.clear();
    const controller = new AbortController();
    const sent = fetch(`${strict.url}${path}`, {
      method: 'POST',
      headers: { 'x-mock-reasoning-tokens': '10000', 'x-mock-generate-ms': '10000' },
      body: JSON.stringify(body),
      signal: controller.signal,
    }).catch(() => undefined);
    await expect.poll(() => strict.bill.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(strict.bill[0]).toMatchObject({ outputTokens: 0 });
    controller.abort();
    await sent;
    await expect.poll(() => strict.bill[0]?.outputTokens).toBeGreaterThanOrEqual(100);
    expect(strict.bill[0]?.outputTokens).toBeLessThan(5_000);
    expect(strict.bill[0]).toMatchObject({ completed: false, reasoningTokens: strict.bill[0]?.outputTokens });
  }
});

test('a vendor may bill on after a disconnect, whole documents included', async () => {
  const billed = async (script: Record<string, string>, stream: boolean) => {
    strict.clear();
    const controller = new AbortController();
    const sent = fetch(`${strict.url}/chat/completions`, {
      method: 'POST',
      headers: { 'x-mock-output-tokens': '90', ...script },
      body: JSON.stringify({ model: 'cheap', messages, stream }),
      signal: controller.signal,
    }).catch(() => undefined);
    await expect.poll(() => strict.bill.length).toBe(1);
    controller.abort();
    await sent;
  };
  await billed({ 'x-mock-chunk-delay-ms': '1000' }, true);
  expect(strict.bill[0]?.outputTokens).toBeLessThan(90);
  await billed({ 'x-mock-chunk-delay-ms': '1000', 'x-mock-after-disconnect': 'bill' }, true);
  await expect.poll(() => strict.bill[0]?.outputTokens).toBe(90);
  await billed({ 'x-mock-generate-ms': '10000' }, false);
  expect(strict.bill[0]).toMatchObject({ outputTokens: 90, completed: false });
});

test('a greedy vendor does all that a request allows, and reads fields in any case', async () => {
  await post(greedy, '/messages', {
    messages,
    max_tokens: 10,
    MAX_TOKENS: 50,
    tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }],
  });
  expect(greedy.bill[0]).toMatchObject({ model: 'cheap', outputTokens: 50, toolUses: { web_search: 2 } });
  await post(greedy, '/messages', { ...message, fallbacks: [{ model: 'dear', max_tokens: 200 }] });
  expect(greedy.bill[1]).toMatchObject({ model: 'dear', outputTokens: 200 });
});
