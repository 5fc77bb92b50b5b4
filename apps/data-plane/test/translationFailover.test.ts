import Anthropic from '@anthropic-ai/sdk';
import { Dialect, Route, Translation } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, HARD, settled } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret', traits: { strict: true } });
const CONNECTORS = [
  { id: 'con_anthropic', provider: 'anthropic', dialect: Dialect.ANTHROPIC, routes: [Route.MESSAGES] },
  { id: 'con_openai', provider: 'openai', routes: [Route.CHAT_COMPLETIONS, Route.RESPONSES] },
];
const CAPABILITIES = ['tools', 'structured_output', 'reasoning'];
const model = (id: string) => ({ id, nanoPerToken: 7n, capabilities: CAPABILITIES, maxOutputTokens: 32_000 });
const MODELS = ['openai/gpt-5', 'anthropic/claude'].map(model);
const PROFILE = {
  id: 'prf_1',
  name: 'any',
  targets: [{ model: 'anthropic/claude' }, { model: 'openai/gpt-5' }],
};
const HELLO = {
  model: 'router/any',
  max_tokens: 500,
  messages: [{ role: 'user' as const, content: 'Hello there, weighbridge' }],
};

describe('a profile with models of several dialects', () => {
  it('fails over from one that passes to one that is translated', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ ...CONNECTORS[0], baseUrl: 'http://127.0.0.1:9/v1' }, { ...CONNECTORS[1] }],
      models: MODELS,
      profiles: [PROFILE],
      maxRetries: 2,
    });
    const client = new Anthropic({ baseURL: proxy.url, apiKey: ALICE, maxRetries: 0 });
    const { data, response } = await client.messages.create(HELLO).withResponse();
    expect(data.content).toMatchObject([{ type: 'text', text: 'Hello there, weighbridge' }]);
    expect(response.headers.get('x-svc-model')).toBe('openai/gpt-5');
    expect(vendor.requests.map(({ path }) => path)).toEqual(['/v1/responses']);
  });

  it('goes on to a model whose vendor takes what another has no words for', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: CONNECTORS,
      models: MODELS,
      profiles: [{ ...PROFILE, targets: PROFILE.targets.toReversed() }],
    });
    const response = await post(proxy, '/v1/messages', { ...HELLO, stop_sequences: ['x'] });
    expect(response.status).toBe(200);
    expect(response.headers.get('x-svc-model')).toBe('anthropic/claude');
    expect(vendor.requests.map(({ path }) => path)).toEqual(['/v1/messages']);
  });
});

describe('a profile that translates strictly', () => {
  it('refuses what would be dropped, and sends what loses nothing', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: CONNECTORS,
      models: MODELS,
      profiles: [{ ...PROFILE, targets: [{ model: 'openai/gpt-5' }], translation: Translation.STRICT }],
    });
    const content = [{ type: 'text', text: 'Hello', cache_control: { type: 'ephemeral' } }];
    const refused = await post(proxy, '/v1/messages', { ...HELLO, messages: [{ role: 'user', content }] });
    expect(refused.status).toBe(400);
    const { error } = (await refused.json()) as {
      error: { code: string; message: string; fields: object[] };
    };
    expect(error).toMatchObject({ code: 'not_translatable', message: expect.stringContaining('strict') });
    expect(error.fields).toMatchObject([{ path: 'messages.0.content.0.cache_control' }]);
    expect(vendor.requests).toEqual([]);
    expect((await post(proxy, '/v1/messages', HELLO)).status).toBe(200);
    // By the model's own name, the profile does not apply.
    const named = { ...HELLO, model: 'openai/gpt-5', messages: [{ role: 'user', content }] };
    expect((await post(proxy, '/v1/messages', named)).status).toBe(200);
  });
});

describe('a translated request under a hard budget', () => {
  const askFor = async (headroomNanoUsd: bigint, fields: object = {}) => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: CONNECTORS,
      models: MODELS,
      headroomNanoUsd: () => headroomNanoUsd,
    });
    const headers = { authorization: `Bearer ${HARD}` };
    const body = { model: 'anthropic/claude', input: 'Hello there, weighbridge', ...fields };
    const response = await post(proxy, '/v1/responses', body, headers);
    expect(response.status).toBe(200);
    expect(settled(proxy.events)[0]).toMatchObject({ outcome: 'SUCCESS', estimated: false });
    return JSON.parse(String(vendor.requests.at(-1)?.body)).max_tokens;
  };

  it('gets the limit that the budget affords, in the dialect of the vendor', async () => {
    expect(await askFor(1_000_000_000n)).toBe(16_384);
    const lowered = await askFor(50_000n);
    expect(lowered).toBeGreaterThan(16);
    expect(lowered).toBeLessThan(50_000 / 7);
  });

  it('keeps the limit that its caller set', async () => {
    expect(await askFor(50_000n, { max_output_tokens: 900 })).toBe(900);
  });
});

describe('a conversation that goes on without translation', () => {
  it('does not hand the vendor what another one signed', async () => {
    const proxy = await startProxyForTest({ vendorUrl: vendor.url, connectors: CONNECTORS, models: MODELS });
    const said = [
      { type: 'thinking', thinking: 'Hm.', signature: 'wb1.bWFj.b3BlbmFp.e..cnNfMQ.c2VjcmV0' },
      { type: 'thinking', thinking: 'Own.', signature: 'EqQB' },
      { type: 'text', text: 'wb1. is what I say' },
    ];
    const turns = [
      ...HELLO.messages,
      { role: 'assistant', content: said },
      { role: 'user', content: 'Go on' },
    ];
    const body = { ...HELLO, model: 'anthropic/claude', messages: turns };
    expect((await post(proxy, '/v1/messages', body)).status).toBe(200);
    expect((await post(proxy, '/v1/messages/count_tokens', { ...body, max_tokens: undefined })).status).toBe(
      200,
    );
    const sent = vendor.requests.map(({ body }) => JSON.parse(String(body)).messages[1].content);
    expect(sent).toEqual([said.slice(1), said.slice(1)]);
  });

  it('does not hand the vendor what another one cited', async () => {
    const proxy = await startProxyForTest({ vendorUrl: vendor.url, connectors: CONNECTORS, models: MODELS });
    const location = {
      type: 'web_search_result_location',
      url: 'https://a.example/',
      title: 'A',
      cited_text: '',
    };
    const foreign = { ...location, encrypted_index: 'wb1.citation' };
    const own = { ...location, encrypted_index: 'EqQB' };
    const said = [
      { type: 'text', text: 'One.', citations: [foreign, own] },
      { type: 'text', text: 'Two.', citations: [foreign] },
    ];
    const turns = [
      ...HELLO.messages,
      { role: 'assistant', content: said },
      { role: 'user', content: 'Go on' },
    ];
    const body = { ...HELLO, model: 'anthropic/claude', messages: turns };
    expect((await post(proxy, '/v1/messages', body)).status).toBe(200);
    const sent = vendor.requests.map(({ body }) => JSON.parse(String(body)).messages[1].content);
    expect(sent).toEqual([
      [
        { type: 'text', text: 'One.', citations: [own] },
        { type: 'text', text: 'Two.' },
      ],
    ]);
  });
});
