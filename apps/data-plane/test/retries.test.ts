import Anthropic from '@anthropic-ai/sdk';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FaultyVendor, startFaultyVendor } from './faultyVendor.ts';
import { post } from './post.ts';
import { ALICE, BOB, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

let mock: MockVendor;
let vendor: FaultyVendor;
let proxy: TestProxy;

beforeEach(async () => {
  mock = await startMockVendor();
  vendor = await startFaultyVendor(mock.url);
});
afterEach(async () => {
  await proxy.close();
  await vendor.close();
  await mock.close();
});

async function start(options: Partial<TestProxyOptions> = {}): Promise<void> {
  proxy = await startProxy({ vendorUrl: vendor.url, maxRetries: 2, ...options });
}

const hello = { model: 'mock/echo', messages: [{ role: 'user' as const, content: 'Hello there' }] };
const ask = (key = ALICE) => post(proxy, '/v1/chat/completions', hello, { authorization: `Bearer ${key}` });

/** The SDKs with their defaults: each retries twice. */
const CALLS = {
  openai: () => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE }).chat.completions.create(hello),
  '@anthropic-ai/sdk': () =>
    new Anthropic({ baseURL: proxy.url, apiKey: ALICE }).messages.create({ ...hello, max_tokens: 9 }),
};

describe.each(Object.entries(CALLS))('one call of %s', (_name, call) => {
  it.each([
    ['answers 500', () => ({ status: 500 }) as const],
    ['answers 529', () => ({ status: 529 }) as const],
    ['answers 429 without a time', () => ({ status: 429 }) as const],
    ['closes the connection', () => 'reset' as const],
  ])('makes at most three calls to a vendor that %s', async (_what, fault) => {
    await start();
    vendor.fault = fault;
    await expect(call()).rejects.toThrow();
    expect(vendor.requests).toHaveLength(3);
    // A program around the SDK that tries again four times, as dspy does: one more call each, instead of three.
    for (let at = 0; at < 3; at++) await expect(call()).rejects.toThrow();
    expect(vendor.requests).toHaveLength(6);
  });

  it('leaves the retries to the SDK where the service makes none', async () => {
    await start({ maxRetries: 0 });
    vendor.fault = () => ({ status: 500 });
    await expect(call()).rejects.toThrow();
    expect(vendor.requests).toHaveLength(3);
  });
});

describe('after the service gave up', () => {
  it('the answer says that a retry is of no use, whatever the vendor says', async () => {
    await start();
    vendor.fault = () => ({ status: 503 });
    const answer = await ask();
    expect([answer.status, answer.headers.get('x-should-retry')]).toEqual([503, 'false']);
    vendor.fault = () => 'reset';
    const broken = await ask(BOB);
    expect([broken.status, broken.headers.get('x-should-retry')]).toEqual([502, 'false']);
  });

  it('a long pause is still left to the client', async () => {
    await start();
    vendor.fault = () => ({ status: 429, retryAfter: '30' });
    const answer = await ask();
    expect([answer.headers.get('x-should-retry'), answer.headers.get('retry-after')]).toEqual([null, '30']);
    expect(vendor.requests).toHaveLength(1);
  });

  it('errors of the request say nothing of retries', async () => {
    await start();
    vendor.fault = () => ({ status: 400 });
    expect((await ask()).headers.get('x-should-retry')).toBeNull();
  });

  it('requests of the same key are tried once, others as often as ever, until one succeeds', async () => {
    await start({ nowMs: () => 0 });
    vendor.fault = () => ({ status: 500 });
    const attempts = async (key: string) => {
      const answer = await ask(key);
      await answer.body?.cancel();
      return [answer.headers.get('x-svc-attempts'), answer.headers.get('x-should-retry')];
    };
    expect(await attempts(ALICE)).toEqual(['3', 'false']);
    expect(await attempts(ALICE)).toEqual(['1', 'false']);
    expect(await attempts(BOB)).toEqual(['3', 'false']);
    vendor.fault = () => undefined;
    expect(await attempts(ALICE)).toEqual(['1', null]);
    vendor.fault = () => ({ status: 500 });
    expect(await attempts(ALICE)).toEqual(['3', 'false']);
  });
});
