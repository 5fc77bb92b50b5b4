import { createServer, request, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { Route } from '@weighbridge/contracts';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALICE, settled, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

let vendor: MockVendor;
let proxy: TestProxy;
const closing: (() => Promise<unknown> | unknown)[] = [];

beforeAll(async () => {
  vendor = await startMockVendor();
  proxy = await startProxy({ vendorUrl: vendor.url, chunkTimeoutMs: 500, drainMs: 300 });
});
beforeEach(() => {
  vendor.clear();
  proxy.events.length = 0;
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(async () => {
  await proxy?.close();
  await vendor?.close();
});

async function proxyWith(options: Partial<TestProxyOptions>): Promise<TestProxy> {
  const another = await startProxy({ vendorUrl: vendor.url, ...options });
  closing.push(() => another.close());
  return another;
}

async function vendorThat(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server: Server = createServer(handler ?? (() => {}));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const text = 'Hello there, weighbridge';
const messages = [{ role: 'user', content: text }];
const hello = { model: 'mock/echo', messages };
const ROUTES: [string, object][] = [
  ['/v1/chat/completions', hello],
  ['/v1/responses', { model: 'mock/echo', input: text }],
  ['/v1/messages', { ...hello, max_tokens: 100_000 }],
];

function post(
  path: string,
  body: object,
  headers: Record<string, string> = {},
  to = proxy,
  init: RequestInit = {},
) {
  return fetch(to.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...init,
  });
}

describe.each(ROUTES)('what goes wrong at the vendor on %s', (path, body) => {
  const stream = { ...body, stream: true };

  it('before an answer is told by a status, and settled', async () => {
    const reset = await post(path, body, { 'x-mock-reset': 'before' });
    expect(reset.status).toBe(502);
    expect(await reset.json()).toMatchObject({ error: { code: 'upstream_error' } });
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
    const nobody = await proxyWith({ vendorUrl: 'http://127.0.0.1:1/v1' });
    expect((await post(path, body, {}, nobody)).status).toBe(502);
    expect(settled(nobody.events)).toMatchObject([
      { outcome: 'UPSTREAM_UNREACHABLE', estimated: false, cost: 0n },
    ]);
  });

  it('in the midst of a document cuts the answer rather than end it', async () => {
    const answer = await post(path, body, { 'x-mock-reset': 'mid' });
    // Held until it is whole, it can still be told by a status.
    expect(answer.status).toBe(502);
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
  });

  it.each([
    ['a reset', { 'x-mock-reset': 'mid' }, 'broke the connection'],
    ['half a chunk', { 'x-mock-reset': 'mid', 'x-mock-split': '7' }, 'broke the connection'],
    ['a stall', { 'x-mock-stall': 'mid' }, 'did not answer in time'],
  ])('in the midst of a stream is told in it: %s', async (_what, headers, message) => {
    const answer = await post(path, stream, headers);
    const seen = await answer.text();
    const last = seen.trimEnd().split('\n\n').at(-1) ?? '';
    expect(last).toContain(message);
    if (path !== '/v1/chat/completions') expect(last).toMatch(/^event: error\ndata: /);
    expect(JSON.parse(last.slice(last.indexOf('data: ') + 6))).toMatchObject({
      error: { message: expect.any(String) },
    });
    expect(seen).not.toContain('[DONE]');
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'INTERRUPTED', estimated: true }]);
  });

  it('leaves the connections usable', async () => {
    for (const how of ['headers', 'mid']) await (await post(path, stream, { 'x-mock-reset': how })).text();
    for (let at = 0; at < 5; at++) expect((await (await post(path, body)).json()) as object).toBeTruthy();
  });
});

describe.each(ROUTES)('a caller that leaves %s', (path, body) => {
  async function leaveAfterFirstByte(headers: Record<string, string>): Promise<void> {
    const leaving = new AbortController();
    const answer = await post(path, { ...body, stream: true }, headers, proxy, { signal: leaving.signal });
    await answer.body?.getReader().read();
    leaving.abort();
  }

  it('has the vendor listened to for what it counted, within the cap', async () => {
    await leaveAfterFirstByte({ 'x-mock-chunks': '10', 'x-mock-chunk-delay-ms': '5' });
    await expect
      .poll(() => settled(proxy.events))
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: false, usage: { output: 10 } }]);
  });

  it('stops a vendor that takes longer, and what came is counted', async () => {
    await leaveAfterFirstByte({ 'x-mock-chunks': '1000', 'x-mock-chunk-delay-ms': '20' });
    await expect
      .poll(() => settled(proxy.events), { timeout: 15_000 })
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: true }]);
    await expect.poll(() => vendor.bill[0]?.completed).toBe(false);
    const billed = vendor.bill[0]?.outputTokens ?? 0;
    expect(billed).toBeLessThan(100);
    const counted = settled(proxy.events)[0]?.usage.output ?? 0;
    expect(Math.abs(counted - billed)).toBeLessThanOrEqual(3);
  });

  it('before the answer has the vendor waited for no longer than the cap', async () => {
    const asked = post(path, body, { 'x-mock-delay-ms': '5000' }, proxy, { signal: AbortSignal.timeout(50) });
    await expect(asked).rejects.toThrow();
    await expect
      .poll(() => settled(proxy.events), { timeout: 15_000 })
      .toMatchObject([{ outcome: 'CLIENT_GONE', estimated: true }]);
    await expect.poll(() => vendor.bill).toEqual([]);
  });
});

describe('connectors', () => {
  it('take no more requests at once than allowed', async () => {
    const narrow = await proxyWith({ connectors: [{ maxParallel: 1 }] });
    const first = post('/v1/chat/completions', hello, { 'x-mock-delay-ms': '300' }, narrow);
    await expect.poll(() => vendor.requests.length).toBe(1);
    const second = await post('/v1/messages', { ...hello, max_tokens: 9 }, {}, narrow);
    expect(second.status).toBe(503);
    expect(await second.json()).toMatchObject({
      error: { type: 'overloaded_error', code: 'connector_busy' },
    });
    expect((await first).status).toBe(200);
    expect((await post('/v1/chat/completions', hello, {}, narrow)).status).toBe(200);
    // What was held back never was an attempt.
    expect(narrow.events).toHaveLength(2);
  });

  it('are never followed to where they redirect', async () => {
    const reached: string[] = [];
    const elsewhere = await vendorThat((received, response) => {
      reached.push(received.url ?? '');
      response.end('{}');
    });
    const redirecting = await vendorThat((_received, response) =>
      response.writeHead(307, { location: `${elsewhere}/chat/completions` }).end(),
    );
    const misled = await proxyWith({ vendorUrl: redirecting });
    const answer = await post('/v1/chat/completions', hello, {}, misled);
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_redirect' } });
    expect(answer.headers.has('location')).toBe(false);
    expect(reached).toEqual([]);
    expect(settled(misled.events)).toMatchObject([{ outcome: 'UPSTREAM_ERROR', estimated: false, cost: 0n }]);
  });

  it('are not reached at private addresses, unless that is allowed', async () => {
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
      const baseUrl = vendor.url.replace('127.0.0.1', host);
      const strict = await proxyWith({ connectors: [{ baseUrl, allowPrivateAddress: false }] });
      expect((await post('/v1/chat/completions', hello, {}, strict)).status).toBe(502);
      expect(settled(strict.events)).toMatchObject([{ outcome: 'UPSTREAM_UNREACHABLE', cost: 0n }]);
    }
    expect(vendor.requests).toHaveLength(0);
  });

  it('that do not serve a route say which one they do', async () => {
    const chatOnly = await proxyWith({ connectors: [{ routes: [Route.CHAT_COMPLETIONS] }] });
    const answer = await post('/v1/messages', { ...hello, max_tokens: 9 }, {}, chatOnly);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toMatchObject({
      error: { code: 'route_not_supported', message: expect.stringContaining('/v1/chat/completions') },
    });
  });

  it('may answer with 1xx and trailers, which do no harm', async () => {
    const odd = await proxyWith({
      vendorUrl: await vendorThat((_received, response) => {
        response.writeEarlyHints({ link: '</x>; rel=preload' });
        response.writeHead(200, { 'content-type': 'application/json', trailer: 'x-t' });
        response.write('{"id":"1","usage":{"prompt_tokens":1,"completion_tokens":1}}');
        response.addTrailers({ 'x-t': '1' });
        response.end();
      }),
    });
    const answer = await post('/v1/chat/completions', hello, {}, odd);
    expect(await answer.json()).toMatchObject({ id: '1' });
    expect(settled(odd.events)).toMatchObject([{ outcome: 'SUCCESS', cost: 3_000n }]);
  });
});

describe('methods and origins', () => {
  const ask = (method: string, path: string, headers: Record<string, string> = {}, to = proxy) =>
    fetch(to.url + path, { method, headers });

  it('HEAD mirrors GET, OPTIONS says what is allowed without a key, and the rest is 405', async () => {
    const key = { authorization: `Bearer ${ALICE}` };
    const head = await ask('HEAD', '/v1/models', key);
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect((await ask('HEAD', '/v1/chat/completions', key)).status).toBe(405);
    for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/embeddings']) {
      const options = await ask('OPTIONS', path);
      expect([options.status, options.headers.get('allow')]).toEqual([204, 'POST']);
      expect(options.headers.has('access-control-allow-origin')).toBe(false);
    }
    expect((await ask('OPTIONS', '/v1/responses/resp_1')).headers.get('allow')).toBe('GET, HEAD, DELETE');
    const put = await ask('PUT', '/v1/responses/resp_1', key);
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD, DELETE']);
    expect((await ask('DELETE', '/v1/models/mock/echo', key)).status).toBe(405);
  });

  it('pages of the origins that were set may call, also where the answer is relayed', async () => {
    const open = await proxyWith({ corsOrigins: ['https://app.example'] });
    const origin = { origin: 'https://app.example' };
    const preflight = await ask(
      'OPTIONS',
      '/v1/chat/completions',
      {
        ...origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,x-svc-user',
      },
      open,
    );
    expect(preflight.status).toBe(204);
    expect(Object.fromEntries(preflight.headers)).toMatchObject({
      'access-control-allow-origin': 'https://app.example',
      'access-control-allow-headers': 'authorization,x-svc-user',
      'access-control-allow-methods': expect.stringContaining('POST'),
    });
    for (const stream of [false, true]) {
      const answer = await post('/v1/chat/completions', { ...hello, stream }, origin, open);
      await answer.text();
      expect(answer.headers.get('access-control-allow-origin')).toBe('https://app.example');
      expect(answer.headers.get('access-control-expose-headers')).toContain('x-request-id');
    }
    const refused = await ask('GET', '/v1/models', origin, open);
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([
      401,
      'https://app.example',
    ]);
    const stranger = await post('/v1/chat/completions', hello, { origin: 'https://evil.example' }, open);
    expect(stranger.headers.has('access-control-allow-origin')).toBe(false);
  });

  it('only those: what the vendor allows its own pages is not passed on', async () => {
    const vendorUrl = await vendorThat((_request, response) => {
      response.setHeader('access-control-allow-origin', '*');
      response.setHeader('access-control-expose-headers', '*');
      response.setHeader('content-type', 'application/json');
      response.end('{"choices":[]}');
    });
    for (const corsOrigins of [[], ['https://app.example']]) {
      const closed = await proxyWith({ vendorUrl, corsOrigins });
      const answer = await post('/v1/chat/completions', hello, { origin: 'https://evil.example' }, closed);
      expect(answer.status).toBe(200);
      expect([...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))).toEqual([]);
    }
  });
});

describe('what clients send', () => {
  /** Sends bytes as they are and returns what came back until the connection closed. */
  function raw(bytes: string | Buffer, afterMs = 400): Promise<string> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = new URL(proxy.url);
      const socket = connect(Number(port), hostname);
      let seen = '';
      socket.on('data', (chunk) => {
        seen += chunk.toString('latin1');
      });
      socket.on('error', reject);
      socket.on('close', () => resolve(seen));
      socket.write(bytes);
      setTimeout(() => socket.destroy(), afterMs);
    });
  }
  const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ALICE}\r\ncontent-type: application/json\r\n`;

  it.each([
    ['NUL in a header', `${head}x-a: a\0b\r\ncontent-length: 2\r\n\r\n{}`],
    ['two lengths', `${head}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`],
    ['a length and chunks', `${head}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`],
    ['chunked twice removed', `${head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
    ['a length that is no number', `${head}content-length: 2x\r\n\r\n{}`],
    ['a space before the colon', `${head}content-length : 2\r\n\r\n{}`],
    ['no host', `POST /v1/chat/completions HTTP/1.1\r\n\r\n`],
    ['a bare LF smuggled into a chunk', `${head}transfer-encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n`],
    [
      'more headers than fit',
      `${head}${Array.from({ length: 500 }, (_, at) => `x-${at}: ${'y'.repeat(100)}\r\n`).join('')}\r\n`,
    ],
  ])('%s is a clear 4xx', async (_what, bytes) => {
    expect(await raw(bytes)).toMatch(/^HTTP\/1\.1 4\d\d /);
    expect(vendor.requests).toHaveLength(0);
  });

  it.each([
    ['no object', '[]', 'malformed_json'],
    ['half of one', '{"model":"mock/echo"', 'malformed_json'],
    ['nothing', '', 'malformed_json'],
    ['a field that is read, twice', '{"model":"mock/echo","model":"mock/echo"}', 'duplicate_field'],
    [
      'bytes that are no UTF-8 where a name is read',
      Buffer.from('{"model":"mock/\xff"}', 'latin1'),
      'model_not_found',
    ],
  ])('a body that is %s is a clear 4xx', async (_what, body, code) => {
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body,
    });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(await answer.json()).toMatchObject({ error: { code } });
    expect(vendor.requests).toHaveLength(0);
  });

  it('a body in an encoding or of a type that nobody here reads is 415, and says which header is at fault', async () => {
    for (const [name, value] of Object.entries({
      'content-encoding': 'gzip',
      'content-type': 'text/plain',
    })) {
      const answer = await post('/v1/chat/completions', hello, { [name]: value });
      expect(answer.status).toBe(415);
      expect(await answer.json()).toMatchObject({ error: { param: name } });
    }
  });

  it('deep nesting, lone surrogates and duplicates that nobody reads pass unharmed', async () => {
    const deep = `{"model":"mock/echo","a":${'['.repeat(100_000)}${']'.repeat(100_000)},"b":1,"b":2,"messages":[{"role":"user","content":"\\ud800"}]}`;
    const answer = await fetch(`${proxy.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: deep,
    });
    expect(vendor.requests[0]?.body.toString()).toBe(deep.replace('mock/echo', 'echo'));
    await answer.text();
  });

  it('a body of 32 MiB passes, one byte more is refused, and nothing of it is kept', async () => {
    const limit = 32 * 1024 * 1024;
    const frame = '{"model":"mock/echo","messages":[{"role":"user","content":"x"}],"filler":""}';
    const filled = (bytes: number) =>
      frame.replace('"filler":""', `"filler":"${'y'.repeat(bytes - frame.length)}"`);
    const send = (body: string) =>
      fetch(`${proxy.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
        body,
      });
    expect((await send(filled(limit))).status).toBe(200);
    expect(vendor.requests[0]?.body.length).toBe(limit - 'mock/'.length);
    vendor.clear();
    const refused = await send(filled(limit + 1));
    expect([refused.status, ((await refused.json()) as { error: object }).error]).toMatchObject([
      413,
      { code: 'body_too_large' },
    ]);
    expect(vendor.requests).toHaveLength(0);
  });

  it('slowly, or never to the end, holds nothing up', async () => {
    const sockets = Array.from({ length: 50 }, () => raw(`${head}content-length: 100\r\n\r\n{`, 600));
    expect((await post('/v1/chat/completions', hello)).status).toBe(200);
    await Promise.all(sockets);
    expect((await post('/v1/chat/completions', hello)).status).toBe(200);
  });

  it('ahead of an answer, in a pipeline, is answered in order', async () => {
    const body = JSON.stringify(hello);
    const one = `${head}content-length: ${body.length}\r\n\r\n${body}`;
    const seen = await raw(one + one + one, 800);
    expect(seen.match(/HTTP\/1\.1 200 OK/g)).toHaveLength(3);
    expect(vendor.requests).toHaveLength(3);
  });
});

it('a request of HTTP/1.0 without keep-alive is answered and closed', async () => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const sent = request(
      `${proxy.url}/v1/models`,
      { headers: { authorization: `Bearer ${ALICE}`, connection: 'close' } },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      },
    );
    sent.on('error', reject).end();
  });
  expect(status).toBe(200);
});
