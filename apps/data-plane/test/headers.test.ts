import { connect } from 'node:net';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, settled, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

const CREDENTIAL = 'sk-vendor-0123456789';
const MESSAGES = [{ role: 'user', content: 'Hello there' }];
const ROUTES: [string, object][] = [
  ['/v1/chat/completions', { model: 'mock/echo', messages: MESSAGES }],
  ['/v1/responses', { model: 'mock/echo', input: 'Hello there' }],
  ['/v1/messages', { model: 'mock/echo', messages: MESSAGES, max_tokens: 100 }],
];

const vendor = useVendor();

/** Writes raw bytes to the proxy, and reads until it closes the connection. */
function raw({ url }: TestProxy, bytes: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes, 'latin1'));
    let seen = '';
    socket.on('data', (chunk) => {
      seen += chunk.toString('latin1');
    });
    socket.on('error', () => {});
    socket.on('close', () => resolve(seen));
  });
}

describe("the vendor's credential", () => {
  it.each(['identity', 'gzip', 'br'])(
    'never reaches a client, even if the vendor repeats it: %s',
    async (encoding) => {
      const encode = { gzip: gzipSync, br: brotliCompressSync }[encoding] ?? ((body: Buffer) => body);
      const repeating = await startVendor((received, response) => {
        const sent = String(received.headers.authorization ?? received.headers['x-api-key']);
        const body = Buffer.from(JSON.stringify({ error: { message: `${sent} is no key of ours` } }));
        // One vendor labels its errors as a stream.
        const type = received.url?.includes('responses') ? 'text/event-stream' : 'application/json';
        response
          .writeHead(400, {
            'content-type': type,
            'content-encoding': encoding,
            'x-said': sent,
            'x-other': '1',
          })
          .end(encode(body));
      });
      const refused = await startProxyForTest({
        vendorUrl: repeating,
        connectors: [{ credential: CREDENTIAL }],
      });
      for (const [path, body] of ROUTES) {
        const answer = await post(refused, path, body, { 'accept-encoding': encoding });
        const said = await answer.text();
        expect([answer.status, said]).toEqual([400, expect.stringMatching(/\[removed\] is no key of ours/)]);
        expect([answer.headers.get('x-other'), answer.headers.has('x-said')]).toEqual(['1', false]);
      }
    },
  );
});

describe('no header is created by', () => {
  const received = () => vendor.requests.flatMap(({ headers }) => Object.keys(headers));

  it.each([
    ['a line end in a value', 'x-svc-user: ada\rx-injected: 1'],
    ['a line end in a value that goes on to the vendor', 'x-passed: a\nb\rx-injected: 1'],
    ['a value that goes on in the next line', 'x-passed: a\r\n x-injected: 1'],
    ['a name with a line end', 'x-passed\rx-injected: 1'],
    ['a NUL', 'x-passed: a\0x-injected: 1'],
  ])('%s', async (_what, line) => {
    const proxy = await startProxyForTest({ vendorUrl: vendor.url });
    const body = JSON.stringify(ROUTES[0]?.[1]);
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer ${ALICE}\r\n`;
    const answer = await raw(
      proxy,
      `${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n${line}\r\n\r\n${body}`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 \d{3} /);
    expect(answer.toLowerCase()).not.toContain('\r\nx-injected');
    expect(received()).not.toContain('x-injected');
  });

  it('the content of a body, a path or a query', async () => {
    const proxy = await startProxyForTest({
      vendorUrl: vendor.url,
      connectors: [{ credential: CREDENTIAL }],
    });
    const text = 'echo\r\nx-injected: 1';
    const named = await post(proxy, '/v1/chat/completions', { model: `mock/${text}`, messages: MESSAGES });
    expect([named.status, named.headers.has('x-injected')]).toEqual([400, false]);
    const key = { authorization: `Bearer ${ALICE}` };
    for (const path of ['/v1/responses/', '/v1/models/', '/v1/responses/resp_1?include=']) {
      const answer = await fetch(proxy.url + path + encodeURIComponent(text), { headers: key });
      expect(answer.headers.has('x-injected')).toBe(false);
    }
    expect(received()).not.toContain('x-injected');
  });

  it.each(['模型', 'modèle', 'naïve–model'])(
    'a model name that is not valid in a header: %s',
    async (name) => {
      const proxy = await startProxyForTest({
        vendorUrl: vendor.url,
        models: [{ id: `mock/${name}`, upstreamName: 'echo', nanoPerToken: 1_000n }],
      });
      for (const stream of [false, true]) {
        const answer = await post(proxy, '/v1/chat/completions', {
          model: `mock/${name}`,
          messages: MESSAGES,
          stream,
        });
        expect(answer.status).toBe(200);
        expect(await answer.text()).toContain('Hello');
      }
      expect(settled(proxy.events).map(({ outcome }) => outcome)).toEqual(['SUCCESS', 'SUCCESS']);
    },
  );

  it('a vendor with headers that are not ASCII: they pass byte for byte', async () => {
    const bytes = Buffer.from('名前').toString('latin1');
    const odd = await startVendor((_received, response) =>
      response.writeHead(200, { 'x-name': bytes, 'content-type': 'application/json' }).end('{"id":"1"}'),
    );
    const answer = await post(
      await startProxyForTest({ vendorUrl: odd }),
      ...(ROUTES[0] as [string, object]),
    );
    expect([answer.status, answer.headers.get('x-name')]).toEqual([200, bytes]);
  });
});
