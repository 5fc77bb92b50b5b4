import { Dialect, Route } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const proxy = useProxy(vendor, {
  policyCache: { policyId: 'pol_1', scope: 'principal', ttlMs: 60_000 },
  connectors: [
    { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
    { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
  ],
  models: ['openai/gpt-5', 'anthropic/claude'].map((id) => ({ id, nanoPerToken: 7n })),
});

const cached = (content: string) => [{ type: 'text', text: content, cache_control: { type: 'ephemeral' } }];
const messages = (content: unknown) => [{ role: 'user', content }];

async function ask(
  path: string,
  body: object,
): Promise<{ text: string; cache: string | null; headers: Headers }> {
  const response = await post(proxy, path, body);
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return { text, cache: response.headers.get('x-svc-cache'), headers: response.headers };
}

const CASES: [what: string, path: string, body: object][] = [
  [
    'a document of messages',
    '/v1/messages',
    { model: 'openai/gpt-5', max_tokens: 99, messages: messages(cached('a')) },
  ],
  [
    'a stream of messages',
    '/v1/messages',
    { model: 'openai/gpt-5', max_tokens: 99, stream: true, messages: messages(cached('b')) },
  ],
  [
    'a document of chat completions',
    '/v1/chat/completions',
    { model: 'anthropic/claude', max_tokens: 99, user: 'ada', messages: messages('c') },
  ],
  [
    'a stream of responses',
    '/v1/responses',
    {
      model: 'anthropic/claude',
      store: false,
      max_output_tokens: 99,
      stream: true,
      safety_identifier: 'ada',
      input: 'd',
    },
  ],
  [
    'a stream of Gemini’s',
    '/v1beta/models/openai/gpt-5:streamGenerateContent',
    {
      generationConfig: { maxOutputTokens: 99, topK: 3 },
      contents: [{ role: 'user', parts: [{ text: 'e' }] }],
    },
  ],
];

describe('a translated answer', () => {
  it.each(CASES)('is cached, with what the request lost: %s', async (_what, path, body) => {
    const first = await ask(path, body);
    const again = await ask(path, body);
    expect([first.cache, again.cache]).toEqual(['miss', 'hit']);
    expect(again.text).toBe(first.text);
    expect(first.headers.get('x-svc-dropped')).toMatch(/changed|dropped/);
    expect(again.headers.get('x-svc-dropped')).toBe(first.headers.get('x-svc-dropped'));
    expect(vendor.requests).toHaveLength(1);
  });

  it('is not cached as a stream of which callers choose whether they see its usage', async () => {
    const body = { model: 'anthropic/claude', max_tokens: 99, stream: true, messages: messages('f') };
    const seen = { ...body, stream_options: { include_usage: true } };
    expect((await ask('/v1/chat/completions', body)).text).not.toContain('"usage"');
    const shown = await ask('/v1/chat/completions', seen);
    expect([shown.cache, shown.text.includes('"usage"')]).toEqual(['miss', true]);
  });

  it('that failed is not cached', async () => {
    const body = { model: 'openai/gpt-5', max_tokens: 99, stream: true, messages: messages('g') };
    const failing = { 'x-mock-sse-error': 'true', 'x-mock-output-tokens': '200' };
    expect(await (await post(proxy, '/v1/messages', body, failing)).text()).toContain('error');
    expect((await ask('/v1/messages', body)).cache).toBe('miss');
  });
});
