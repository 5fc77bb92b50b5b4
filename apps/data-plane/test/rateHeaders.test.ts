import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { HELLO, post } from './post.ts';
import { ALICE, RATED, startProxy, type TestProxy } from './proxy.ts';

let vendor: Server;
let proxy: TestProxy;
beforeAll(async () => {
  vendor = createServer((request, response) => {
    request.resume();
    response.writeHead(429, {
      'content-type': 'application/json',
      'retry-after': '7',
      'x-ratelimit-limit-requests': '5000',
      'x-ratelimit-remaining-project-tokens': '12',
      'anthropic-ratelimit-tokens-remaining': '34',
    });
    response.end('{"error":{"message":"slow down"}}');
  });
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve));
  proxy = await startProxy({ vendorUrl: `http://127.0.0.1:${(vendor.address() as AddressInfo).port}` });
});
afterAll(async () => {
  await proxy?.close();
  vendor?.close();
});

async function limitsToldTo(token: string): Promise<Record<string, string>> {
  const authorization = `Bearer ${token}`;
  const body = { ...HELLO, max_tokens: 10 };
  const { headers } = await post(proxy, '/v1/chat/completions', body, { authorization });
  return Object.fromEntries([...headers].filter(([name]) => /ratelimit|retry-after/.test(name)));
}

it("a key with rate limits gets its own in headers, and none of the vendor's account", async () => {
  const told = await limitsToldTo(RATED);
  expect(told).toMatchObject({
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-limit-tokens': '6000',
    'anthropic-ratelimit-requests-limit': '60',
    'anthropic-ratelimit-tokens-limit': '6000',
    // retry-after comes from the vendor.
    'retry-after': '7',
  });
  expect(told).not.toHaveProperty('x-ratelimit-remaining-project-tokens');
  expect(told['anthropic-ratelimit-tokens-remaining']).not.toBe('34');
});

it("a key without rate limits gets the vendor's headers", async () => {
  expect(await limitsToldTo(ALICE)).toEqual({
    'retry-after': '7',
    'x-ratelimit-limit-requests': '5000',
    'x-ratelimit-remaining-project-tokens': '12',
    'anthropic-ratelimit-tokens-remaining': '34',
  });
});
