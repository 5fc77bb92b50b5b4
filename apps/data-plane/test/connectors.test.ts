import { create } from '@bufbuild/protobuf';
import { PriceSchema, PriceSource } from '@weighbridge/contracts';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { HELLO, post } from './post.ts';
import { startProxy, type TestProxy } from './proxy.ts';
import { startProxyForTest } from './useProxy.ts';

let vendor: MockVendor;
let proxy: TestProxy;
beforeAll(async () => {
  vendor = await startMockVendor({ apiKey: 'vendor-secret' });
  const negotiated = create(PriceSchema, {
    version: 3,
    rates: { input: 5_000_000n, output: 0n, cacheRead: 0n, cacheWrite: 0n, cacheWrite1h: 0n },
  });
  proxy = await startProxy({
    vendorUrl: vendor.url,
    connectors: [
      {
        models: ['mock/e*'],
        upstreamNames: { 'mock/echo': 'our-echo' },
        prices: { 'mock/echo': negotiated },
      },
      { models: ['mock/gpt/*'] },
    ],
  });
});
afterAll(async () => {
  await proxy?.close();
  await vendor?.close();
});

const complete = (model: string) => post(proxy, '/v1/chat/completions', { ...HELLO, model });

it("a request goes to a connector that serves its model, under the connector's model name and at its price", async () => {
  const answer = await complete('mock/echo');
  expect(answer.status).toBe(200);
  expect(answer.headers.get('x-svc-model')).toBe('mock/echo');
  expect((await complete('mock/gpt/with/slashes')).status).toBe(200);
  expect(vendor.requests.map(({ body }) => JSON.parse(String(body)).model)).toEqual([
    'our-echo',
    'gpt/with/slashes',
  ]);
  const [here, there] = proxy.events;
  const input = BigInt(here?.usage?.input ?? 0);
  expect(here).toMatchObject({
    connectorId: 'con_0',
    model: 'mock/echo',
    costNanoUsd: input * 5n,
    priceVersion: 3,
    priceSource: PriceSource.CONNECTOR,
  });
  expect(there).toMatchObject({ connectorId: 'con_1', priceVersion: 7, priceSource: PriceSource.CATALOG });
});

it("a connector's time-outs override the proxy's", async () => {
  const connectors = [{ firstByteTimeoutMs: 50 }];
  const impatient = await startProxyForTest({ vendorUrl: vendor.url, connectors });
  const response = await post(impatient, '/v1/chat/completions', HELLO, { 'x-mock-delay-ms': '10000' });
  expect([response.status, (await response.json()) as object]).toMatchObject([
    504,
    { error: { code: 'upstream_timeout' } },
  ]);
});
