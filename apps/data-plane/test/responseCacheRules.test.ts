import { CacheScope, Strategy } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { POLICY_CACHE, PRINCIPAL_CACHE, useCachingProxy } from './cachingProxy.ts';
import { HELLO } from './post.ts';
import { BOB } from './proxy.ts';
import { useVendor } from './useProxy.ts';

const vendor = useVendor({ apiKey: 'vendor-secret' });
const caching = useCachingProxy(vendor);
const { ask, post, startWith } = caching;

describe('no one gets', () => {
  it("another principal's response, unless the policy shares them", async () => {
    expect((await ask()).cache).toBe('miss');
    expect((await ask({ key: BOB })).cache).toBe('miss');
    caching.proxy.policyCache = POLICY_CACHE;
    expect((await ask()).cache).toBe('miss');
    expect((await ask({ key: BOB })).cache).toBe('hit');
    caching.proxy.policyCache = { ...POLICY_CACHE, policyId: 'pol_2' };
    expect((await ask({ key: BOB })).cache).toBe('miss');
  });

  it('the response of another workload type, compared in full', async () => {
    const of = (type: string) => ask({ headers: { 'x-svc-workload-type': type } });
    caching.proxy.policyCache = POLICY_CACHE;
    const long = 'x'.repeat(300);
    expect((await of(`${long}1`)).cache).toBe('miss');
    expect((await of(`${long}2`)).cache).toBe('miss');
    expect((await ask()).cache).toBe('miss');
    expect((await of(`${long}1`)).cache).toBe('hit');
  });

  it('a response that the policy does not cache, or no longer', async () => {
    caching.proxy.policyCache = undefined;
    expect((await ask()).cache).toBe('bypass');
    caching.proxy.policyCache = PRINCIPAL_CACHE;
    expect((await ask()).cache).toBe('miss');
    caching.proxy.policyCache = { ...PRINCIPAL_CACHE, ttlMs: 0 };
    expect((await ask()).cache).toBe('miss');
    expect(vendor.bill).toHaveLength(3);
  });

  it('the response of a model that is no longer allowed', async () => {
    expect((await ask()).cache).toBe('miss');
    caching.proxy.allows = (model) => model !== 'mock/echo';
    await expect(ask()).rejects.toMatchObject({ code: 'model_not_allowed' });
    caching.proxy.allows = () => true;
    expect((await ask()).cache).toBe('hit');
  });
});

describe('a profile', () => {
  const profile = (...models: string[]) => ({
    id: 'prf_1',
    name: 'p',
    strategy: Strategy.ORDERED,
    targets: models.map((model) => ({ model, weight: 1 })),
    cache: { scope: CacheScope.PRINCIPAL, ttlSeconds: 60 },
  });
  const [echo, other] = ['mock/echo', 'mock/gpt/with/slashes'] as const;
  const askIt = async (session?: string) => {
    const headers = session === undefined ? {} : { 'x-svc-session-id': session };
    const { cache, headers: answered } = await ask({ headers }, { model: 'router/p' });
    return `${cache} of ${answered.get('x-svc-model')}`;
  };

  it('serves responses of any of its models, and none of a removed model', async () => {
    await startWith({ profiles: [profile(echo, other)] });
    expect(await askIt()).toBe(`miss of ${echo}`);
    caching.proxy.publish({ profiles: [profile(other, echo)] });
    expect(await askIt()).toBe(`hit of ${echo}`);
    caching.proxy.publish({ profiles: [profile(other)] });
    expect(await askIt()).toBe(`miss of ${other}`);
    expect((await ask({}, { model: echo })).cache).toBe('bypass');
  });

  it('serves a session only responses of its pinned model', async () => {
    await startWith({ profiles: [profile(other, echo)] });
    expect(await askIt('old')).toBe(`miss of ${other}`);
    caching.proxy.publish({ profiles: [profile(echo, other)] });
    expect(await askIt('new')).toBe(`miss of ${echo}`);
    expect(await askIt('old')).toBe(`miss of ${other}`);
    expect(await askIt('old')).toBe(`hit of ${other}`);
    expect(await askIt()).toBe(`hit of ${other}`);
  });
});

describe('never cached:', () => {
  it.each<[string, Record<string, string>, object]>([
    ['an error', { 'x-mock-status': '500' }, {}],
    ['an answer that was cut at its limit', {}, { max_tokens: 2 }],
    ['a stream that was cut at its limit', {}, { max_tokens: 2, stream: true }],
    ['a stream with an error in it', { 'x-mock-sse-error': 'true' }, { stream: true }],
    ['a stream that broke off', { 'x-mock-reset': 'mid' }, { stream: true }],
    ['an answer that broke off', { 'x-mock-reset': 'mid' }, {}],
    ['a stream that is too large', { 'x-mock-chunks': '9000' }, { stream: true }],
  ])('%s', async (_what, headers, body) => {
    for (const path of ['/v1/chat/completions', '/v1/messages']) {
      const asked = { max_tokens: 128_000, ...HELLO, ...body };
      for (let time = 0; time < 2; time++) {
        const answer = await post(path, asked, headers).catch(() => undefined);
        await answer?.text().catch(() => undefined);
        expect(answer?.headers.get('x-svc-cache') ?? 'miss').toBe('miss');
      }
    }
    expect(caching.proxy.events.some(({ cacheHit }) => cacheHit)).toBe(false);
  });

  it('a response that is too large', async () => {
    const headers = { 'x-mock-output-tokens': '120000' };
    for (let time = 0; time < 2; time++) {
      const { cache, data } = await ask({ headers }, { n: 4 });
      expect([cache, data.choices.length]).toEqual(['miss', 4]);
    }
  });

  it('a response that depends on more than the request, or leaves something at the vendor', async () => {
    const input = { model: 'mock/echo', input: 'Hello' };
    for (const body of [input, { ...input, store: true }, { ...input, store: null }]) {
      for (let time = 0; time < 2; time++) {
        const answer = await post('/v1/responses', body);
        expect([answer.status, answer.headers.get('x-svc-cache')]).toEqual([200, 'bypass']);
      }
    }
    for (const more of [
      { tools: [{ type: 'web_search' }] },
      { store: true },
      { web_search_options: {} },
      { container: 'c' },
    ]) {
      const answer = await post('/v1/chat/completions', { ...HELLO, ...more });
      expect(answer.headers.get('x-svc-cache')).toBe('bypass');
    }
    const counted = await post('/v1/messages/count_tokens', HELLO);
    expect([counted.status, counted.headers.get('x-svc-cache')]).toEqual([200, 'bypass']);
    expect(counted.headers.get('x-svc-cost-micro-usd')).toBe('0');
  });

  it('more than fits: the least recently used is evicted', async () => {
    await startWith({ policyCache: PRINCIPAL_CACHE, responseCacheBytes: 256 * 1024 });
    const content = (at: number) => `${at} ${'x'.repeat(8_000)}`;
    const askOf = (at: number) => ask({}, { messages: [{ role: 'user', content: content(at) }] });
    for (let at = 0; at < 60; at++) await askOf(at);
    expect((await askOf(59)).cache).toBe('hit');
    expect((await askOf(0)).cache).toBe('miss');
    const text = await caching.proxy.metrics.text();
    const used = Number(/^weighbridge_response_cache_used_bytes (\d+)$/m.exec(text)?.[1]);
    expect(used).toBeGreaterThan(128 * 1024);
    expect(used).toBeLessThanOrEqual(256 * 1024);
    expect(text).toContain('weighbridge_response_cache_lookups_total{met="memory"} 1');
    expect(text).toContain('weighbridge_response_cache_kept_total 61');
  });
});
