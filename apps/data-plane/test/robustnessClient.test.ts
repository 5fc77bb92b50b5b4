import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { HELLO, HELLO_BY_ROUTE, post } from './post.ts';
import { ALICE, settled } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor, { chunkTimeoutMs: 500, drainMs: 300 });

/** Makes writing the head fail, as for an invalid header; later writes succeed. */
function failOnce(response: ServerResponse): void {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = () => {
    response.writeHead = writeHead;
    throw new TypeError('a header that cannot be');
  };
}

describe('a client', () => {
  it('that disconnects before there is a connection to the vendor is charged nothing', async () => {
    let connections = 0;
    // It accepts connections, and never answers the TLS handshake.
    const silent = createServer((socket) => {
      connections++;
      socket.on('error', () => {});
      onTestFinished(() => void socket.destroy());
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void silent.close());
    const vendorUrl = `https://127.0.0.1:${(silent.address() as AddressInfo).port}/v1`;
    const slow = await startProxyForTest({ vendorUrl, drainMs: 10, connectTimeoutMs: 30_000 });
    const leaving = new AbortController();
    const asked = post(slow, '/v1/chat/completions', HELLO, {}, { signal: leaving.signal });
    await expect.poll(() => connections).toBe(1);
    leaving.abort();
    await expect(asked).rejects.toThrow();
    await expect
      .poll(() => settled(slow.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, cost: 0n }]);
  });

  it('that stops reading is disconnected after a while, and holds no resources', async () => {
    let isFirst = true;
    const vendorUrl = await startVendor((_received, response) => {
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
    const narrow = await startProxyForTest({
      vendorUrl,
      stalledMs: 300,
      drainMs: 100,
      connectors: [{ maxParallel: 1 }],
    });
    const { hostname, port } = new URL(narrow.url);
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => {});
    socket.pause();
    const body = JSON.stringify({ ...HELLO, stream: true });
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ALICE}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await expect.poll(() => settled(narrow.events)).toMatchObject([{ outcome: 'CLIENT_GONE' }]);
    expect((await post(narrow, '/v1/chat/completions', HELLO)).status).toBe(200);
  });

  it.each([
    ['a document', false, { outcome: 'SUCCESS', estimated: false }],
    ['a stream', true, { outcome: 'INTERRUPTED', estimated: true }],
  ])(
    'gets an error where %s cannot be passed on, and the attempt is settled',
    async (_what, stream, event) => {
      let isBroken = true;
      const odd = await startProxyForTest({
        vendorUrl: vendor.url,
        intercept: (_request, response) => {
          if (isBroken) failOnce(response);
          isBroken = false;
        },
      });
      const answer = await post(odd, '/v1/chat/completions', { ...HELLO, stream });
      expect(answer.status).toBe(500);
      expect(await answer.json()).toMatchObject({ error: { request_id: expect.any(String) } });
      expect(settled(odd.events)).toMatchObject([event]);
      expect((await post(odd, '/v1/chat/completions', HELLO)).status).toBe(200);
    },
  );
});

describe.each(HELLO_BY_ROUTE)('a client that disconnects from %s', (path, body) => {
  async function leaveAfterFirstByte(headers: Record<string, string>): Promise<void> {
    const leaving = new AbortController();
    const answer = await post(proxy, path, { ...body, stream: true }, headers, { signal: leaving.signal });
    await answer.body?.getReader().read();
    leaving.abort();
  }

  it('leaves the rest of the stream to be read for its usage, within the cap', async () => {
    await leaveAfterFirstByte({ 'x-mock-chunks': '10', 'x-mock-chunk-delay-ms': '5' });
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, usage: { output: 10 } }]);
  });

  it('stops a vendor that takes longer, and at least the reservation is charged', async () => {
    await leaveAfterFirstByte({ 'x-mock-chunks': '1000', 'x-mock-chunk-delay-ms': '20' });
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: true }]);
    await expect.poll(() => vendor.bill[0]?.completed).toBe(false);
    const billed = vendor.bill[0]?.outputTokens ?? 0;
    expect(billed).toBeLessThan(100);
    // Its own limit, or the usual length: this vendor bills on.
    const reserved = 'max_tokens' in body ? Number(body.max_tokens) : 1_024;
    expect(settled(proxy.events)[0]?.usage.output).toBe(Math.min(reserved, 1_024));
    expect(billed).toBeLessThan(reserved);
  });

  it('before the response makes the proxy wait no longer than the cap', async () => {
    const leaving = new AbortController();
    const asked = post(proxy, path, body, { 'x-mock-delay-ms': '60000' }, { signal: leaving.signal });
    const left = expect(asked).rejects.toThrow();
    await expect.poll(() => vendor.requests.length).toBe(1);
    leaving.abort();
    await left;
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: true }]);
    await expect.poll(() => vendor.bill).toEqual([]);
  });
});
