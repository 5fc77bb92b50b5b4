import { randomBytes } from 'node:crypto';
import { openJetStreamBucket } from '@weighbridge/bus';
import { eventually, useNats } from '@weighbridge/testing';
import OpenAI from 'openai';
import { expect, it, onTestFinished } from 'vitest';
import { cacheBucketSettings, type SharedCache } from '../src/cache/openResponseCache.ts';
import { ALICE, type TestProxy } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const policyCache = { policyId: 'pol_1', scope: 'principal', ttlMs: 3_600_000 } as const;
const sealingKey = randomBytes(32);

const nats = useNats();
const vendor = useVendor({ apiKey: 'vendor-secret' });

async function startWith(key = sealingKey): Promise<{ proxy: TestProxy; stored: Uint8Array[] }> {
  const bucket = await openJetStreamBucket(
    { url: nats.url, clientName: 'test', setBy: 'THE_SETTINGS', timeoutMs: 20_000, onError: () => {} },
    cacheBucketSettings({ maxBytes: 16 * 1024 * 1024, replicas: 1 }),
  );
  onTestFinished(() => bucket.close());
  // The client has the response before it is stored.
  const stored: Uint8Array[] = [];
  const put = async (name: string, value: Uint8Array) => {
    await bucket.put(name, value);
    stored.push(value);
  };
  const sharedCache: SharedCache = {
    bucket: { get: (name) => bucket.get(name), put },
    sealingKey: key,
    waitMs: 20_000,
  };
  const proxy = await startProxyForTest({ vendorUrl: vendor.url, policyCache, sharedCache });
  return { proxy, stored };
}

async function ask({ url }: TestProxy, content: string, stream = false) {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: ALICE, maxRetries: 0 });
  const messages = [{ role: 'user' as const, content }];
  const { data, response } = await openai.chat.completions
    .create({ model: 'mock/echo', messages, stream })
    .withResponse();
  const answers: unknown[] = [];
  if (Symbol.asyncIterator in data) for await (const chunk of data) answers.push(chunk);
  else answers.push(data);
  return { answers, cache: response.headers.get('x-svc-cache') };
}

it('a response is shared by two proxies, sealed, streamed or not', async () => {
  const [{ proxy: one, stored }, { proxy: two }] = [await startWith(), await startWith()];
  for (const [at, stream] of [false, true].entries()) {
    const content = `the secret of ${stream}`;
    const first = await ask(one, content, stream);
    await eventually(() => expect(stored).toHaveLength(at + 1));
    const [theirs, again] = [await ask(two, content, stream), await ask(two, content, stream)];
    expect([first, theirs, again].map(({ cache }) => cache)).toEqual(['miss', 'hit', 'hit']);
    expect(theirs.answers).toEqual(first.answers);
    expect(Buffer.from(stored[at] ?? []).includes('secret')).toBe(false);
  }
  expect(vendor.bill).toHaveLength(2);
  expect(await two.metrics.text()).toContain('lookups_total{met="shared"} 2');
  expect(await two.metrics.text()).toContain('lookups_total{met="memory"} 2');
});

it('a response opens only with the sealing key', async () => {
  const [{ proxy: one, stored }, { proxy: two }] = [await startWith(), await startWith(randomBytes(32))];
  await ask(one, 'sealed');
  await eventually(() => expect(stored).toHaveLength(1));
  expect((await ask(two, 'sealed')).cache).toBe('miss');
});

it('an unavailable store is a cache miss, and is counted', async () => {
  const { proxy, stored } = await startWith();
  await ask(proxy, 'before');
  await eventually(() => expect(stored).toHaveLength(1));
  await nats.stop('SIGKILL');
  const missed = await ask(proxy, 'while it is away');
  expect(missed.cache).toBe('miss');
  expect((await ask(proxy, 'before')).cache).toBe('hit');
  await eventually(async () =>
    expect(await proxy.metrics.text()).toMatch(/response_cache_errors_total\{operation="get"\} [1-9]/),
  );
});
