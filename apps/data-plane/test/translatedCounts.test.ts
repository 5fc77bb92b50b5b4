import { Dialect, Route } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const model = (id: string) => ({ id, nanoPerToken: 7n, capabilities: ['tools'], maxOutputTokens: 32_000 });
const proxy = useProxy(vendor, {
  connectors: [
    { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
    { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
    { id: 'con_gemini', provider: 'gemini', routes: [Route.GENERATE_CONTENT] },
    { id: 'con_xai', provider: 'xai', routes: [Route.CHAT_COMPLETIONS] },
  ],
  models: ['openai/gpt-5', 'anthropic/claude', 'gemini/gemini-2.5-pro', 'xai/grok'].map(model),
});

const TEXT = 'Hello there, weighbridge';
const COUNTERS: Readonly<Record<string, { path: (model: string) => string; body: object; field: string }>> = {
  messages: {
    path: () => '/v1/messages/count_tokens',
    body: { messages: [{ role: 'user', content: TEXT }] },
    field: 'input_tokens',
  },
  responses: { path: () => '/v1/responses/input_tokens', body: { input: TEXT }, field: 'input_tokens' },
  gemini: {
    path: (name) => `/v1beta/models/${name}:countTokens`,
    body: { contents: [{ role: 'user', parts: [{ text: TEXT }] }] },
    field: 'totalTokens',
  },
};
const VENDORS = {
  'anthropic/claude': '/v1/messages/count_tokens',
  'openai/gpt-5': '/v1/responses/input_tokens',
  'gemini/gemini-2.5-pro': ':countTokens',
  'xai/grok': undefined,
};

async function count(counter: string, name: string) {
  const { path, body, field } = COUNTERS[counter] ?? { path: () => '', body: {}, field: '' };
  const sent = counter === 'gemini' ? body : { model: name, ...body };
  const response = await post(proxy, path(name), sent);
  expect(response.status).toBe(200);
  const answer = (await response.json()) as Record<string, unknown>;
  return { tokens: answer[field], estimated: response.headers.get('x-svc-estimated') };
}

it('does not guess what a stored response has', async () => {
  const body = { model: 'xai/grok', input: TEXT, previous_response_id: `resp_${'0'.repeat(48)}` };
  const response = await post(proxy, '/v1/responses/input_tokens', body);
  expect(response.status).toBeGreaterThanOrEqual(400);
  expect(response.status).toBeLessThan(500);
  expect(vendor.requests).toEqual([]);
});

describe.each(Object.keys(COUNTERS))('the counter of %s', (counter) => {
  it.each(Object.entries(VENDORS))("reaches %s by its vendor's own counter", async (name, path) => {
    const { tokens, estimated } = await count(counter, name);
    expect(tokens).toBeGreaterThan(2);
    expect(estimated).toBe(path === undefined ? 'true' : null);
    expect(vendor.requests).toHaveLength(path === undefined ? 0 : 1);
    if (path !== undefined) expect(vendor.requests[0]?.path).toContain(path);
    expect(proxy.events).toEqual([]);
  });
});
