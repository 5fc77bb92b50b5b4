import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { HELLO, HELLO_BY_ROUTE, post } from './post.ts';
import { ALICE, BOB, type TestProxy } from './proxy.ts';
import { connectTo, head } from './rawClient.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const MIB = 1024 * 1024;
const CHAT = 'POST /v1/chat/completions';
const KEY = { authorization: `Bearer ${ALICE}` };
const ERROR = /"code":"(\w+)".*\}$/s;

const vendor = useVendor();

describe('memory', () => {
  const start = (options: { memoryBudgetBytes?: number; bodyLimitBytes?: number } = {}): Promise<TestProxy> =>
    startProxyForTest({ vendorUrl: vendor.url, ...options });

  /** Sends a head, and no byte of the body; returns the response. */
  async function refused(proxy: TestProxy, line: string, headers: Record<string, string | number>) {
    const client = await connectTo(proxy.url);
    client.write(head(line, headers));
    const response = await client.reads(/\r\n\r\n/);
    return { client, response, status: Number(response.slice(9, 12)) };
  }

  it.each<[string, Record<string, string>, number]>([
    ['POST /nope', {}, 404],
    ['POST /v1/nope', KEY, 404],
    ['POST /v1/chat/completions/x', {}, 404],
    ['PUT /v1/chat/completions', {}, 405],
    ['PATCH /v1/models', {}, 405],
    ['DELETE /v1/messages', KEY, 405],
    ['OPTIONS /v1/chat/completions', {}, 204],
    ['OPTIONS /healthz', {}, 204],
    ['POST /healthz', {}, 405],
    [CHAT, {}, 401],
    ['POST /v1/messages', { 'x-api-key': 'wrong' }, 401],
    ['POST /v1/feedback', {}, 401],
    ['DELETE /v1/responses/resp_1', {}, 401],
    [CHAT, { ...KEY, 'content-type': 'text/plain' }, 415],
  ])('%s with %j is answered before the body, and the connection closed', async (line, headers, status) => {
    const proxy = await start();
    for (const length of [{ 'content-length': 31 * MIB }, { 'transfer-encoding': 'chunked' }]) {
      const refusal = await refused(proxy, line, { ...headers, ...length });
      expect(refusal.status).toBe(status);
      expect(refusal.response).toMatch(/connection: close/i);
      expect(proxy.memory.usedBytes).toBe(0);
      await refusal.client.closed;
    }
  });

  it('refuses a body by its announced length, and serves another request on the connection of a small one', async () => {
    const proxy = await start({ bodyLimitBytes: 10_000 });
    const large = await refused(proxy, CHAT, { ...KEY, 'content-length': 10_001 });
    expect(large.status).toBe(413);
    expect(await large.client.reads(ERROR)).toContain('10000 bytes');
    large.client.write(Buffer.alloc(10_001));
    large.client.write(head('GET /healthz'));
    await large.client.reads(/"status":"ok"/);
  });

  it('asks a client that waits for it only for a body that it will read', async () => {
    const proxy = await start({ memoryBudgetBytes: 4 * MIB });
    const expecting = { expect: '100-continue', 'content-length': 2 * MIB };
    for (const [line, headers, status] of [
      ['POST /v1/nope', KEY, 404],
      [CHAT, {}, 401],
      [CHAT, { ...KEY, 'content-type': 'text/plain' }, 415],
    ] as const) {
      expect((await refused(proxy, line, { ...headers, ...expecting })).status).toBe(status);
    }
    proxy.memory.take(3 * MIB);
    expect((await refused(proxy, CHAT, { ...KEY, ...expecting })).status).toBe(503);
    proxy.memory.release(3 * MIB);
    const body = JSON.stringify(HELLO);
    const length = { 'content-length': body.length };
    const { client, status } = await refused(proxy, CHAT, { ...KEY, ...expecting, ...length });
    expect(status).toBe(100);
    client.write(body);
    await client.reads(/HTTP\/1.1 200/);
  });

  it.each(HELLO_BY_ROUTE)('refuses %s with a 503 while the budget is full, before the body', async (path) => {
    const proxy = await start({ memoryBudgetBytes: 8 * MIB });
    proxy.memory.take(7 * MIB);
    const { client, status, response } = await refused(proxy, `POST ${path}`, {
      ...KEY,
      'content-length': 2 * MIB,
    });
    expect(status).toBe(503);
    expect(response).toMatch(/retry-after: 1\r\n/i);
    const text = await client.reads(ERROR);
    const { error, type } = JSON.parse(text.slice(text.indexOf('\r\n\r\n')));
    expect([type, error.type, error.code]).toEqual(
      path === '/v1/messages'
        ? ['error', 'overloaded_error', 'memory_budget_exhausted']
        : [undefined, 'service_unavailable', 'memory_budget_exhausted'],
    );
    await client.closed;
    expect(await proxy.metrics.text()).toContain('weighbridge_memory_refusals_total{use="request"} 1');
    proxy.memory.release(7 * MIB);
    expect((await post(proxy, path, { ...HELLO, input: 'x', max_tokens: 9 })).status).toBe(200);
  });

  it('refuses a body of unknown length when the budget or the limit is reached', async () => {
    const proxy = await start({ memoryBudgetBytes: 4 * MIB, bodyLimitBytes: 2 * MIB });
    for (const [taken, status, code] of [
      [3 * MIB, 503, 'memory_budget_exhausted'],
      [0, 413, 'body_too_large'],
    ] as const) {
      proxy.memory.take(taken);
      const client = await connectTo(proxy.url);
      client.write(head(CHAT, { ...KEY, 'transfer-encoding': 'chunked' }));
      const piece = Buffer.alloc(512 * 1024, ' ');
      for (let sent = 0; sent < 6; sent++) {
        client.write(`${piece.length.toString(16)}\r\n`);
        client.write(piece);
        client.write('\r\n');
      }
      const response = await client.reads(ERROR);
      expect([response.slice(9, 12), ERROR.exec(response)?.[1]]).toEqual([String(status), code]);
      await client.closed;
      proxy.memory.release(taken);
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
  });

  it('reads a body of unknown length, also one that comes in single bytes', async () => {
    const proxy = await start();
    const body = JSON.stringify({ ...HELLO, filler: 'x'.repeat(100_000) });
    const client = await connectTo(proxy.url);
    client.write(head(CHAT, { ...KEY, 'transfer-encoding': 'chunked' }));
    client.write(`${[...body].map((byte) => `1\r\n${byte}\r\n`).join('')}0\r\n\r\n`);
    await client.reads(/HTTP\/1.1 200/);
    expect(String(vendor.requests.at(-1)?.body)).toHaveLength(body.replace('mock/', '').length);
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });

  it('holds a body while its request runs, and gives it back however the request ends', async () => {
    const proxy = await start();
    const large = { ...HELLO, filler: 'x'.repeat(2 * MIB) };
    const slow = post(proxy, '/v1/chat/completions', large, { 'x-mock-delay-ms': '300' });
    await expect.poll(() => proxy.memory.usedBytes).toBeGreaterThan(2 * MIB);
    await (await slow).text();
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);

    const leave = (ms: number) => ({ signal: AbortSignal.timeout(ms) });
    const ways: [Record<string, string>, object, RequestInit][] = [
      [{ 'x-mock-status': '500' }, {}, {}],
      [{ 'x-mock-status': '429' }, { stream: true }, {}],
      [{ 'x-mock-reset': 'before' }, {}, {}],
      [{ 'x-mock-reset': 'headers' }, {}, {}],
      [{ 'x-mock-reset': 'mid', 'x-mock-chunks': '20' }, { stream: true }, {}],
      [{ 'x-mock-chunks': '20' }, { stream: true }, {}],
      [{ 'x-mock-delay-ms': '1000' }, {}, leave(100)],
      [{ 'x-mock-chunks': '50', 'x-mock-chunk-delay-ms': '20' }, { stream: true }, leave(200)],
      [{}, { model: 'mock/unknown' }, {}],
      [{}, { model: 7 }, {}],
      [{ authorization: 'Bearer wrong' }, {}, {}],
      [{ 'accept-encoding': 'br' }, { stream: true }, {}],
      [{ 'accept-encoding': 'gzip' }, {}, {}],
    ];
    for (const [headers, fields, init] of [...ways, ...ways]) {
      const asked = post(proxy, '/v1/chat/completions', { ...large, ...fields }, headers, init);
      await asked.then((response) => response.text()).catch(() => undefined);
    }
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });

  it.each([
    ['leaves', ''],
    ['breaks off within a chunk', '5\r\n{"mo'],
    ['sends what is no chunk', 'nonsense\r\n\r\n'],
    ['sends another request, which is none', `0\r\n\r\nnonsense\r\n\r\n`],
    ['sends another one', `0\r\n\r\n${head(CHAT, { ...KEY, 'transfer-encoding': 'chunked' })}zz`],
  ])('takes nothing for a client that %s while its key is looked up', async (_what, rest) => {
    const proxy = await start();
    for (const isWaiting of [true, false]) {
      let found = () => {};
      if (isWaiting) {
        proxy.keyLookup = new Promise<void>((resolve) => {
          found = resolve;
        });
      }
      for (const length of [{ 'transfer-encoding': 'chunked' }, { 'content-length': 3_000 }]) {
        const client = await connectTo(proxy.url);
        client.write(`${head(CHAT, { ...KEY, ...length })}${rest}`);
        await sleep(20);
        client.destroy();
      }
      await sleep(50);
      found();
      proxy.keyLookup = undefined;
      await sleep(20);
      // One that was refused has two seconds to read the answer.
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
  });

  it('gives back the body of a client that disconnects during the upload, whose fault it is not', async () => {
    const proxy = await start();
    for (const length of [{ 'content-length': 3 * MIB }, { 'transfer-encoding': 'chunked' }]) {
      const client = await connectTo(proxy.url);
      client.write(head(CHAT, { ...KEY, ...length }));
      client.write(`${(2 * MIB).toString(16)}\r\n`);
      client.write(Buffer.alloc(MIB));
      await expect.poll(() => proxy.memory.usedBytes).toBeGreaterThan(MIB / 2);
      client.destroy();
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
    const gone = /weighbridge_requests_total\{[^}]*outcome="client_gone"\} (\d)/g;
    await expect
      .poll(async () => [...(await proxy.metrics.text()).matchAll(gone)].map(([, count]) => count))
      .toEqual(['2']);
    expect(await proxy.metrics.text()).not.toContain('outcome="fault"');
  });
});

describe('memory of responses', () => {
  it('is taken from the cache before a request is refused', async () => {
    const cache = { policyId: 'pol_1', scope: 'principal', ttlMs: 60_000 } as const;
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      policyCache: cache,
      memoryBudgetBytes: 2 * MIB,
      responseCacheBytes: 2 * MIB,
    });
    for (let at = 0; at < 20; at++) {
      await (await post(proxy, '/v1/chat/completions', { ...HELLO, temperature: 0, seed: at })).text();
    }
    const cached = proxy.memory.usedBytes;
    expect(cached).toBeGreaterThan(20 * 1024);
    for (const [key, held] of [
      [ALICE, MIB + cached],
      [BOB, 2 * MIB],
    ] as const) {
      const client = await connectTo(proxy.url);
      client.write(head(CHAT, { authorization: `Bearer ${key}`, 'content-length': MIB }));
      await expect.poll(() => proxy.memory.usedBytes).toBe(held);
    }
    // Nothing was refused: the cache made room.
    expect(await proxy.metrics.text()).not.toContain('weighbridge_memory_refusals_total{use="request"}');
  });

  it('is counted while a client does not read', async () => {
    const event = `data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(8 * MIB) } }] })}\n\n`;
    const vendorUrl = await startVendor((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(event);
    });
    const proxy = await startProxyForTest({ vendorUrl, drainMs: 50 });
    const client = await connectTo(proxy.url);
    client.pause();
    const body = JSON.stringify({ ...HELLO, stream: true });
    client.write(head(CHAT, { ...KEY, 'content-length': body.length }));
    client.write(body);
    await expect.poll(() => proxy.memory.usedBytes).toBeGreaterThan(4 * MIB);
    client.destroy();
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });
});
