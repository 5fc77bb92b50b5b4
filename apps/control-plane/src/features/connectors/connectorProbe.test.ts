import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { excerpt, probe } from './connectorProbe.ts';

const CREDENTIAL = 'sk-canary-0123456789abcdef';
let servers: Server[] = [];
afterEach(() => {
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  servers = [];
});

async function vendor(respond: RequestListener): Promise<string> {
  const server = createServer(respond);
  servers.push(server);
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

const options = (baseUrl: string) => ({
  baseUrl,
  dialect: 'openai' as const,
  credential: CREDENTIAL,
  allowPrivateAddress: true,
  timeoutMs: 500,
});

describe('testing a credential', () => {
  it('sends it in the header of the dialect, and succeeds if the upstream lists its models', async () => {
    const seen: object[] = [];
    const url = await vendor((request, response) => {
      seen.push({ url: request.url, method: request.method, ...request.headers });
      response.end('{"data":[]}');
    });
    expect(await probe(options(url))).toMatchObject({ ok: true, status: 200 });
    expect(await probe({ ...options(url), dialect: 'anthropic' })).toMatchObject({ ok: true });
    expect(seen).toMatchObject([
      { url: '/v1/models', method: 'GET', authorization: `Bearer ${CREDENTIAL}` },
      { 'x-api-key': CREDENTIAL, 'anthropic-version': '2023-06-01' },
    ]);
  });

  it("shows the vendor's error message, without the credential and without HTML", async () => {
    const url = await vendor((_request, response) => {
      response
        .writeHead(401)
        .end(JSON.stringify({ error: { message: `Incorrect key: ${CREDENTIAL}.\u001b[31m` } }));
    });
    const result = await probe(options(url));
    expect(result).toMatchObject({ ok: false, status: 401 });
    expect(result.message).toBe(
      'The upstream rejected the credential. Its message: Incorrect key: [removed] [31m',
    );
    const html = await vendor((_request, response) =>
      response.writeHead(502).end('<html>secret page</html>'),
    );
    expect((await probe(options(html))).message).toBe('The upstream answered with 502.');
  });

  it('follows no redirect', async () => {
    let followed = false;
    const elsewhere = await vendor((_request, response) => {
      followed = true;
      response.end();
    });
    const url = await vendor((_request, response) => response.writeHead(307, { location: elsewhere }).end());
    expect(await probe(options(url))).toMatchObject({ ok: false, status: 307 });
    expect(followed).toBe(false);
  });

  it('ends in time if the vendor responds slowly or without end', async () => {
    const silent = await vendor(() => {});
    expect((await probe(options(silent))).message).toBe('The upstream did not answer within 500 ms.');
    const dripping = await vendor((_request, response) => {
      response.writeHead(500);
      setInterval(() => response.write(' '), 20).unref();
    });
    expect((await probe(options(dripping))).ok).toBe(false);
    const endless = await vendor((_request, response) => {
      response.writeHead(500);
      const more = () => {
        while (response.write('x'.repeat(65_536)));
        response.once('drain', more);
      };
      more();
    });
    expect(await probe(options(endless))).toMatchObject({ ok: false, status: 500 });
  });

  it('connects to no private address, literal or resolved, unless it is allowed', async () => {
    let reached = false;
    const url = await vendor((_request, response) => {
      reached = true;
      response.end();
    });
    for (const baseUrl of [url, url.replace('127.0.0.1', 'localhost')]) {
      const result = await probe({ ...options(baseUrl), allowPrivateAddress: false });
      expect(result).toMatchObject({
        ok: false,
        status: null,
        message: expect.stringContaining('ALLOWED_UPSTREAM_HOSTS'),
      });
    }
    expect(reached).toBe(false);
  });

  it('reports an upstream that cannot be reached', async () => {
    expect((await probe(options('http://127.0.0.1:1/v1'))).message).toBe(
      'The upstream could not be reached (ECONNREFUSED).',
    );
  });
});

it.each([
  ['sk-canary-0123456789abcdef', '[removed]'],
  ['"sk-canary-01**********cdef"', '[removed]'],
  ['key=…cdef', '[removed]'],
  ['abcdef0123456789abcdef', '[removed]'],
  ['invalid x-api-key', 'invalid x-api-key'],
])('an excerpt shows no part of the credential: %s', (message, shown) => {
  expect(excerpt(JSON.stringify({ error: { message } }), CREDENTIAL)).toBe(shown);
});
