import { createServer as createHttpServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { ALICE, settled, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

let vendor: MockVendor;
const closing: (() => Promise<unknown> | unknown)[] = [];

beforeAll(async () => {
  vendor = await startMockVendor();
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => vendor?.close());

async function proxyWith(options: Partial<TestProxyOptions>): Promise<TestProxy> {
  const proxy = await startProxy({ vendorUrl: vendor.url, ...options });
  closing.push(() => proxy.close());
  return proxy;
}

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }] };

function ask({ url }: TestProxy, body: object = hello, init: RequestInit = {}) {
  return fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...init,
  });
}

/** Its head can't be written, as if it held what no header can say; what is written after that can. */
function failOnce(response: ServerResponse): void {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = () => {
    response.writeHead = writeHead;
    throw new TypeError('a header that can not be');
  };
}

describe('a caller', () => {
  it('that leaves before there is a connection to the vendor is charged nothing', async () => {
    let connections = 0;
    // It takes connections, and never says a word of TLS.
    const silent = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      closing.push(() => socket.destroy());
    });
    const vendorUrl = `https://127.0.0.1:${await portOf(silent)}/v1`;
    const slow = await proxyWith({ vendorUrl, drainMs: 10, connectTimeoutMs: 30_000 });
    const leaving = new AbortController();
    const asked = ask(slow, hello, { signal: leaving.signal });
    await expect.poll(() => connections, { timeout: 15_000 }).toBe(1);
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await expect
      .poll(() => settled(slow.events), { timeout: 15_000 })
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, cost: 0n }]);
  });

  it('that stops reading has left after a while, and holds nothing any more', async () => {
    let isFirst = true;
    const stalling = createHttpServer((_received, response) => {
      if (!isFirst) return void response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      isFirst = false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const event = `data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(30_000) } }] })}\n\n`;
      const go = () => {
        while (!response.destroyed) if (!response.write(event)) return void response.once('drain', go);
      };
      response.on('error', () => {});
      go();
    });
    const vendorUrl = `http://127.0.0.1:${await portOf(stalling)}/v1`;
    closing.push(() => stalling.closeAllConnections());
    const narrow = await proxyWith({
      vendorUrl,
      stalledMs: 300,
      drainMs: 100,
      connectors: [{ maxParallel: 1 }],
    });
    const { hostname, port } = new URL(narrow.url);
    const socket = connect(Number(port), hostname);
    closing.push(() => socket.destroy());
    socket.on('error', () => {});
    socket.pause();
    const body = JSON.stringify({ ...hello, stream: true });
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ALICE}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await expect
      .poll(() => settled(narrow.events), { timeout: 20_000 })
      .toMatchObject([{ outcome: 'CLIENT_GONE' }]);
    expect((await ask(narrow)).status).toBe(200);
  });

  it.each([
    ['a document', false, { outcome: 'SUCCESS', estimated: false }],
    ['a stream', true, { outcome: 'INTERRUPTED', estimated: true }],
  ])('is told where %s can not be passed on, and it is settled', async (_what, stream, event) => {
    let isBroken = true;
    const odd = await proxyWith({
      before: (_request, response) => {
        if (isBroken) failOnce(response);
        isBroken = false;
      },
    });
    const answer = await ask(odd, { ...hello, stream });
    expect(answer.status).toBe(500);
    expect(await answer.json()).toMatchObject({ error: { request_id: expect.any(String) } });
    expect(settled(odd.events)).toMatchObject([event]);
    expect((await ask(odd)).status).toBe(200);
  });
});
