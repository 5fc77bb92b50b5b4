import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fault, type FaultyVendor, startFaultyVendor } from './faultyVendor.ts';
import { post } from './post.ts';
import { ALICE, BOB, PATIENT, SPENT, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

/** The vendors of the two connectors: `con_0` has the higher priority. */
let vendors: readonly [FaultyVendor, FaultyVendor];
let mock: MockVendor;
let proxy: TestProxy;
beforeEach(async () => {
  mock = await startMockVendor();
  vendors = [await startFaultyVendor(mock.url), await startFaultyVendor(mock.url)];
});
afterEach(async () => {
  await proxy.close();
  for (const vendor of [...vendors, mock]) await vendor.close();
});

async function start(limits: NonNullable<TestProxyOptions['connectors']>, maxRetries = 2): Promise<void> {
  proxy = await startProxy({
    vendorUrl: vendors[0].url,
    maxRetries,
    connectors: limits.map((limit, at) => ({ baseUrl: vendors[at]?.url ?? '', ...limit })),
  });
}

const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello' }] };
const ask = (key = ALICE, init: RequestInit = {}, body: object = hello) =>
  post(proxy, '/v1/chat/completions', body, { authorization: `Bearer ${key}` }, init);
const sent = () => vendors.map(({ requests }) => requests.length);
/** The next requests fail so; then none does. */
const fail = (vendor: FaultyVendor, ...faults: Fault[]) => {
  vendor.fault = () => faults.shift();
};

describe('an account with limits', () => {
  it('is passed over once it has nothing left, and nothing of the request is held there', async () => {
    await start([{ requestsPerMinute: 2 }, {}]);
    for (let at = 0; at < 5; at++) {
      const answer = await ask();
      expect([answer.status, answer.headers.get('x-svc-attempts')]).toEqual([200, '1']);
    }
    expect(sent()).toEqual([2, 3]);
    expect(proxy.failovers).toEqual(Array(3).fill('con_0: account_limit'));
    expect(proxy.events.map(({ connectorId }) => connectorId).sort()).toEqual([
      ...Array(2).fill('con_0'),
      ...Array(3).fill('con_1'),
    ]);
  });

  it('has none left: the request is refused with the time to wait, and costs nothing', async () => {
    await start([{ requestsPerMinute: 1 }, { requestsPerMinute: 1 }]);
    expect([(await ask()).status, (await ask()).status]).toEqual([200, 200]);
    const refused = await ask();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('x-should-retry')).toBe('true');
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ error: { code: 'account_limit_exceeded' } });
    expect([sent(), proxy.events.length]).toEqual([[1, 1], 2]);
  });

  it('counts each attempt, also those that fail', async () => {
    await start([{ requestsPerMinute: 2 }, { requestsPerMinute: 2 }]);
    fail(vendors[0], { status: 500 }, { status: 500 });
    for (let at = 0; at < 2; at++) expect((await ask()).headers.get('x-svc-attempts')).toBe('2');
    expect((await ask()).status).toBe(429);
    expect(sent()).toEqual([2, 2]);
  });

  it('counts the tokens that a request may take', async () => {
    await start([{ tokensPerMinute: 250n }]);
    const statuses: number[] = [];
    while (statuses.length < 3) statuses.push((await ask(ALICE, {}, { ...hello, max_tokens: 100 })).status);
    expect(statuses).toEqual([200, 200, 429]);
  });

  it('is left alone while the vendor refuses the requests of several principals', async () => {
    await start([{ requestsPerMinute: 60 }], 0);
    const refusal = { status: 429, retryAfter: '600.1234' };
    fail(vendors[0], refusal, refusal, refusal);
    // What one sends may be too much for the vendor by itself: others are still served.
    for (const key of [ALICE, ALICE, BOB]) expect((await ask(key)).status).toBe(429);
    expect(sent()).toEqual([3, 0]);
    const refused = await ask();
    expect(await refused.json()).toMatchObject({ error: { code: 'account_limit_exceeded' } });
    expect(sent()).toEqual([3, 0]);
  });

  it('is waited for by requests that may, until the vendor refuses no more', async () => {
    await start([{ requestsPerMinute: 60 }], 0);
    fail(vendors[0], { status: 429, retryAfter: '1' }, { status: 429, retryAfter: '1' });
    expect([(await ask()).status, (await ask(BOB)).status, (await ask(PATIENT)).status]).toEqual([
      429, 429, 200,
    ]);
  });

  it('gives nothing to a request that its budget refuses, and keeps no place for it', async () => {
    await start([{ requestsPerMinute: 2 }]);
    for (let at = 0; at < 5; at++) {
      const refused = await ask(SPENT);
      expect(await refused.json()).toMatchObject({ error: { code: 'budget_exhausted' } });
    }
    expect([(await ask()).status, (await ask()).status, (await ask()).status]).toEqual([200, 200, 429]);
  });

  it('is not waited for once its connector has changed', async () => {
    await start([{ requestsPerMinute: 1 }]);
    expect((await ask()).status).toBe(200);
    const waiting = ask(PATIENT);
    await expect.poll(() => proxy.failovers).toEqual(['con_0: account_limit']);
    proxy.publish({ connectors: [{ baseUrl: vendors[1].url, requestsPerMinute: 1 }] });
    expect((await waiting).status).toBe(429);
    expect(sent()).toEqual([1, 0]);
  });

  it('is not used by a request whose client leaves the queue', async () => {
    await start([{ requestsPerMinute: 1 }]);
    expect((await ask()).status).toBe(200);
    const leaving = new AbortController();
    const left = ask(PATIENT, { signal: leaving.signal });
    await expect.poll(() => proxy.failovers).toEqual(['con_0: account_limit']);
    leaving.abort();
    await expect(left).rejects.toThrow();
    expect([sent(), proxy.events.length]).toEqual([[1, 0], 1]);
  });
});
