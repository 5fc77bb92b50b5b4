import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FaultyVendor, startFaultyVendor } from './faultyVendor.ts';
import { post } from './post.ts';
import { LIMITED, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';
import type { TestLimit } from './proxyKeys.ts';

/** The first costs five times as much as the others. */
const MODELS = [
  { id: 'acme/large', upstreamName: 'echo', nanoPerToken: 5_000n },
  { id: 'acme/small', upstreamName: 'echo', nanoPerToken: 1_000n },
  { id: 'bolt/other', upstreamName: 'echo', nanoPerToken: 1_000n },
  { id: 'bolt/free', upstreamName: 'echo', nanoPerToken: 0n },
];
const OF_LARGE = { id: 'lim_large', models: ['*/large'] };
const OF_ACME = { id: 'lim_acme', models: ['acme/*'] };
const OF_ALL = { id: 'lim_all', models: [] };
const PLENTY = 10n ** 12n;

let vendor: MockVendor;
let faulty: FaultyVendor;
let proxy: TestProxy;

beforeEach(async () => {
  vendor = await startMockVendor();
  faulty = await startFaultyVendor(vendor.url);
});
afterEach(async () => {
  await proxy.close();
  await faulty.close();
  await vendor.close();
});

const profile = (name: string, models: readonly string[]) => ({
  id: `prf_${name}`,
  name,
  targets: models.map((model) => ({ model })),
});
const ORDERED = profile('ordered', ['acme/large', 'acme/small', 'bolt/other']);

/** What each bucket has left, by the id of its limit; `main` is the policy's own. */
async function start(
  rooms: Readonly<Record<string, bigint>>,
  options: Partial<TestProxyOptions> = {},
): Promise<void> {
  proxy = await startProxy({
    vendorUrl: faulty.url,
    maxRetries: 2,
    models: MODELS,
    profiles: [ORDERED],
    connectors: [
      { id: 'acme', provider: 'acme', baseUrl: faulty.url },
      { id: 'acme-2', provider: 'acme', baseUrl: faulty.url, priority: 5 },
      { id: 'bolt', provider: 'bolt', baseUrl: faulty.url },
    ],
    limits: [OF_LARGE, OF_ACME, OF_ALL],
    roomOf: ({ policyId }) => rooms[policyId.split('.')[1] ?? 'main'] ?? PLENTY,
    ...options,
  });
}

async function ask(model: string, headers: Record<string, string> = {}, max_tokens = 100) {
  const body = { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens };
  const authorization = `Bearer ${LIMITED}`;
  const answer = await post(proxy, '/v1/chat/completions', body, { authorization, ...headers });
  const { error } = (await answer.json()) as { error?: Record<string, unknown> };
  const header = (name: string) => answer.headers.get(`x-svc-${name}`);
  return {
    status: answer.status,
    error,
    served: header('model'),
    attempts: header('attempts'),
    skipped: header('skipped'),
    retryAfter: answer.headers.get('retry-after'),
  };
}

describe('a profile under further limits', () => {
  it('passes over a model whose limit has no headroom, and says which', async () => {
    await start({ lim_large: 0n });
    expect(await ask('router/ordered')).toMatchObject({
      status: 200,
      served: 'acme/small',
      attempts: '1',
      skipped: 'acme/large limit%20lim_large',
    });
    const [event] = proxy.events;
    expect(event).toMatchObject({ model: 'acme/small', attempt: 1, modelAttempt: 1 });
    expect(event?.details?.skipped).toEqual(['acme/large limit lim_large']);
    expect(event?.buckets.map(({ policyId }) => policyId)).toEqual([
      'pol_1',
      'pol_1.lim_acme',
      'pol_1.lim_all',
    ]);
    // Not once for each account of the model.
    expect(proxy.failovers).toEqual(['acme: limit']);
    expect(vendor.requests).toHaveLength(1);
  });

  it('takes a cheaper model that what is left of the same limit covers', async () => {
    // A large one may cost more than 500,000.
    await start({ lim_all: 200_000n });
    expect(await ask('router/ordered')).toMatchObject({ status: 200, served: 'acme/small' });
  });

  it('is refused by a limit if all its models are without headroom', async () => {
    await start({ lim_acme: 0n, lim_all: 0n });
    const { status, error, attempts } = await ask('router/ordered');
    expect([status, attempts]).toEqual([429, null]);
    expect(error).toMatchObject({ code: 'budget_exhausted', limit_id: 'lim_acme', limit: 'limit lim_acme' });
    expect([vendor.requests, proxy.events]).toEqual([[], []]);
  });

  it('is refused by the budget of its policy, whatever its limits have left, but for free models', async () => {
    const withFree = profile('free', ['acme/large', 'acme/small', 'bolt/free']);
    await start({ lim_large: 0n, main: 0n }, { profiles: [ORDERED, withFree] });
    const refused = await ask('router/ordered');
    expect(refused).toMatchObject({ status: 429, error: { code: 'budget_exhausted', policy_id: 'pol_1' } });
    expect(refused.error).not.toHaveProperty('limit');
    expect(await ask('router/free')).toMatchObject({ status: 200, served: 'bolt/free' });
  });

  it('passes over a model for which no lease can be had while the control plane is away', async () => {
    let isAway = false;
    const roomOf = () => {
      if (isAway) throw new Error('the control plane is away');
      return PLENTY;
    };
    await start({}, { roomOf, isLive: () => !isAway });
    // The proxy has leases on all limits but that of the large model.
    expect(await ask('acme/small')).toMatchObject({ status: 200 });
    isAway = true;
    expect(await ask('router/ordered')).toMatchObject({
      status: 200,
      served: 'acme/small',
      skipped: 'acme/large limit%20lim_large',
    });
    expect(await ask('acme/large')).toMatchObject({ status: 503, error: { code: 'budget_unavailable' } });
  });

  it('goes on to a model beyond its limit after a vendor failed', async () => {
    const others = profile('others', ['bolt/other', 'acme/large', 'acme/small']);
    await start({ lim_large: 0n }, { profiles: [others] });
    faulty.fault = () => (faulty.requests.length === 0 ? { status: 503 } : undefined);
    expect(await ask('router/others')).toMatchObject({
      status: 200,
      served: 'acme/small',
      attempts: '2',
      skipped: 'acme/large limit%20lim_large',
    });
    expect(proxy.events.map(({ model, attempt, details }) => [model, attempt, details?.skipped])).toEqual([
      ['bolt/other', 1, undefined],
      ['acme/small', 2, ['acme/large limit lim_large']],
    ]);
  });
});

it('a retry reserves again only after the attempt before it holds nothing', async () => {
  // For one request at a time.
  await start({ lim_large: 700_000n }, { maxRetries: 1 });
  faulty.fault = () => (faulty.requests.length === 0 ? { status: 503 } : undefined);
  expect(await ask('acme/large')).toMatchObject({ status: 200, attempts: '2', skipped: null });
});

it('a model that the caller names is refused at once, at any of its accounts', async () => {
  await start({ lim_large: 0n });
  const { status, error, skipped } = await ask('acme/large');
  expect([status, skipped]).toEqual([429, null]);
  expect(error).toMatchObject({ code: 'budget_exhausted', limit: 'limit lim_large' });
  expect(proxy.failovers).toEqual([]);
});

describe('rates of further limits', () => {
  /** It uses all that it may. */
  const LONG = { 'x-mock-output-tokens': '100' };
  const ofLarge = (rates: NonNullable<TestLimit['rates']>) => ({ limits: [{ ...OF_LARGE, rates }] });

  it.each([{ requestsPerMinute: 1 }, { tokensPerMinute: 200n }])(
    'are passed over by a profile once a minute has nothing left, and refuse a model that the caller names',
    async (rates) => {
      await start({}, ofLarge(rates));
      expect(await ask('router/ordered', LONG)).toMatchObject({ status: 200, served: 'acme/large' });
      expect(await ask('router/ordered')).toMatchObject({
        status: 200,
        served: 'acme/small',
        attempts: '1',
        skipped: 'acme/large limit%20lim_large',
      });
      expect(proxy.failovers).toEqual(['acme: limit']);
      const refused = await ask('acme/large');
      expect([refused.status, Number(refused.retryAfter) > 0]).toEqual([429, true]);
      expect(refused.error).toMatchObject({
        ...{ code: 'rate_limit_exceeded', limit_id: 'lim_large', limit: 'limit lim_large' },
        ...{ counter_scope: 'policy', value: null },
      });
      expect(await ask('acme/small')).toMatchObject({ status: 200 });
      expect(vendor.requests).toHaveLength(3);
    },
  );

  it('count each attempt of a failover in its own limits, and end with it', async () => {
    await start({}, { limits: [{ ...OF_ACME, rates: { requestsPerMinute: 2, maxParallel: 1 } }] });
    faulty.fault = () => (faulty.requests.length < 2 ? { status: 503 } : undefined);
    expect(await ask('router/ordered')).toMatchObject({ status: 200, served: 'bolt/other', attempts: '3' });
    expect(await ask('acme/small')).toMatchObject({ status: 429 });
  });

  it('count nothing of an attempt that was not sent', async () => {
    await start({ main: 900_000n }, ofLarge({ requestsPerMinute: 1, maxParallel: 1 }));
    for (let n = 0; n < 3; n++) {
      expect((await ask('acme/large', {}, 1_000)).error?.code).toBe('budget_exhausted');
    }
    expect(await ask('acme/large')).toMatchObject({ status: 200 });
  });

  it('of parallel requests are free again once a request has ended, however it did', async () => {
    await start({}, ofLarge({ maxParallel: 1 }));
    faulty.fault = () => (faulty.requests.length === 1 ? { status: 400 } : undefined);
    for (const status of [200, 400, 200]) expect((await ask('acme/large')).status).toBe(status);
    const both = await Promise.all([
      ask('acme/large', { 'x-mock-delay-ms': '300' }),
      ask('acme/large', { 'x-mock-delay-ms': '300' }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 429]);
  });

  it('count each value of attribution by itself', async () => {
    const each = { ...OF_ALL, counterScope: 'user', rates: { requestsPerMinute: 1 } };
    await start({}, { limits: [each] });
    const asUser = (user: string) => ask('acme/small', { 'x-svc-user': user });
    expect((await asUser('ann')).status).toBe(200);
    expect((await asUser('bob')).status).toBe(200);
    expect((await asUser('ann')).error).toMatchObject({ counter_scope: 'user', value: 'ann' });
  });
});
