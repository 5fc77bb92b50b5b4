import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS, MESSAGES, type Operation, RESPONSES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { isCacheable } from './cacheable.ts';
import { type CacheKeyInput, cacheKey } from './cacheKey.ts';
import { canonicalMembers } from './canonicalJson.ts';

const rule = { sharedBy: { kind: 'principal', id: 'alice' }, ttlMs: 1 } as const;

function parts(operation: Operation, fields: object) {
  const body = Buffer.from(JSON.stringify({ model: 'mock/echo', ...fields }));
  return {
    generation: readGenerationRequest(operation, new RequestBody([body])),
    members: canonicalMembers(body) ?? [],
  };
}

function key(
  fields: object = {},
  question: Partial<CacheKeyInput> = {},
  operation = CHAT_COMPLETIONS,
): string {
  const names = { model: 'mock/echo', sentName: undefined };
  const common = { ...names, rule, workloadType: undefined, profileId: undefined, headers: {}, query: '' };
  return cacheKey({ ...common, ...parts(operation, fields), ...question });
}

describe('two requests have the same key despite different', () => {
  it.each<[string, object, object?]>([
    ['whoever asks', { user: 'u', safety_identifier: 's', metadata: { a: 1 } }],
    ["however the vendor's own cache is used", { prompt_cache_key: 'k', prompt_cache_retention: '24h' }],
    ['where the default is spelt out', { stream: false }],
    [
      'whether the usage of a stream is wanted',
      { stream: true, stream_options: { include_usage: true } },
      { stream: true },
    ],
  ])('%s', (_what, fields, other = {}) => expect(key(fields)).toBe(key(other)));

  it.each([
    ['a client', ['user-agent', 'x-stainless-lang', 'sec-fetch-mode']],
    [
      'a CDN',
      ['cf-ray', 'cf-connecting-ip', 'cf-visitor', 'cf-ipcountry', 'cf-request-id', 'cdn-loop', 'via'],
    ],
    ['another CDN', ['x-amz-cf-id', 'x-amzn-trace-id', 'true-client-ip', 'x-cloud-trace-context']],
    ['a mesh', ['x-request-id', 'x-correlation-id', 'x-request-start', 'x-envoy-attempt-count']],
    ['a tracer', ['traceparent', 'tracestate', 'baggage', 'b3', 'x-b3-traceid', 'uber-trace-id']],
    ['another tracer', ['x-datadog-trace-id', 'sentry-trace', 'elastic-apm-traceparent', 'newrelic']],
  ])('headers that %s adds', (_who, names) => {
    for (const name of names) expect([name, key({}, { headers: { [name]: 'x' } })]).toEqual([name, key()]);
  });
});

describe('two requests have different keys where they differ in', () => {
  it.each<[string, object]>([
    ['their form', { stream: true }],
    ['a field that is not known', { something_new: 1 }],
    [
      'the vendor being asked to pad a stream',
      { stream: true, stream_options: { include_obfuscation: false } },
    ],
    ['the vendor not being asked for the usage', { stream: true, stream_options: null }],
    ['an answer repeating it', { service_tier: 'flex' }],
  ])('%s', (_what, fields) => expect(key(fields)).not.toBe(key()));

  it('their principal or policy, or their workload type', () => {
    const of = (kind: 'principal' | 'policy', id: string) =>
      key({}, { rule: { sharedBy: { kind, id }, ttlMs: 1 } });
    const typed = (byte: number) => key({}, { workloadType: new Uint8Array([byte]) });
    const ofProfile = key({}, { profileId: 'prf_1' });
    const all = [
      of('principal', 'a'),
      of('principal', 'b'),
      of('policy', 'a'),
      typed(1),
      typed(2),
      ofProfile,
      key(),
    ];
    expect(new Set(all).size).toBe(all.length);
  });

  it('the route, the query or a header that the vendor may read', () => {
    const messages = key({ max_tokens: 1 }, {}, MESSAGES);
    const all = [
      key({ max_tokens: 1 }),
      messages,
      key({ max_tokens: 1 }, { query: '?beta=true' }),
      key({ max_tokens: 1 }, { headers: { 'anthropic-beta': 'x' } }),
      key({ max_tokens: 1 }, { headers: { 'anthropic-beta': 'y' } }),
      key({ max_tokens: 1 }, { headers: { 'cf-aig-custom-cost': 'y' } }),
    ];
    expect(new Set(all).size).toBe(all.length);
    expect(key({ max_tokens: 1, metadata: { user_id: 'u' } }, {}, MESSAGES)).toBe(messages);
  });

  it('fields that the responses route repeats in its response', () => {
    const of = (fields: object) => key({ store: false, ...fields }, {}, RESPONSES);
    const all = [of({}), of({ user: 'u' }), of({ metadata: { a: 'b' } }), of({ prompt_cache_key: 'k' })];
    expect(new Set(all).size).toBe(all.length);
  });
});

describe('isCacheable', () => {
  const cacheable = (fields: object, operation = CHAT_COMPLETIONS) => {
    const { generation, members } = parts(operation, fields);
    return isCacheable(generation, members);
  };

  it('accepts requests that contain all their input', () => {
    expect(cacheable({ temperature: 1, n: 2, tools: [{ type: 'function' }, { type: 'custom' }] })).toBe(true);
    expect(cacheable({ web_search_options: null, tools: null, store: false })).toBe(true);
    expect(cacheable({ max_tokens: 1, tools: [{ name: 'mine', input_schema: {} }] }, MESSAGES)).toBe(true);
    expect(cacheable({ store: false, background: false, previous_response_id: null }, RESPONSES)).toBe(true);
  });

  it.each<[object, Operation]>([
    [{ store: true }, CHAT_COMPLETIONS],
    [{ audio: { voice: 'x' } }, CHAT_COMPLETIONS],
    [{ tools: [{ type: 'web_search_20250305' }] }, MESSAGES],
    [{ tools: ['web'] }, CHAT_COMPLETIONS],
    [{ tools: {} }, CHAT_COMPLETIONS],
    [{ mcp_servers: [] }, MESSAGES],
    [{}, RESPONSES],
    [{ store: null }, RESPONSES],
    [{ store: false, previous_response_id: 'resp_1' }, RESPONSES],
    [{ store: false, conversation: 'conv_1' }, RESPONSES],
    [{ store: false, prompt: { id: 'p' } }, RESPONSES],
    [{ store: false, tools: [{ type: 'file_search' }] }, RESPONSES],
  ])('refuses %j', (fields, operation) => expect(cacheable(fields, operation)).toBe(false));

  it('refuses member names with escapes', () => {
    const body = Buffer.from('{"model":"m/x","web_search_opt\\u0069ons":{}}');
    expect(
      isCacheable(
        readGenerationRequest(CHAT_COMPLETIONS, new RequestBody([body])),
        canonicalMembers(body) ?? [],
      ),
    ).toBe(false);
  });
});
