import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, type HttpServerOptions, listenHttp } from './httpServer.ts';

let server: HttpServer;
afterEach(() => server.close(0));

/** The response to bytes that are not a valid request. */
async function responseTo(bytes: string): Promise<string> {
  server = await listenHttp({ handler: () => {}, host: '127.0.0.1', port: 0, portSetting: 'PORT' });
  const socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
  socket.end(bytes);
  let response = '';
  for await (const piece of socket) response += piece;
  return response;
}

describe('the HTTP server', () => {
  it.each([
    ['nonsense\r\n\r\n', '400 Bad Request', 'malformed_request'],
    [
      `GET / HTTP/1.1\r\nx: ${'x'.repeat(140_000)}\r\n\r\n`,
      '431 Request Header Fields Too Large',
      'headers_too_large',
    ],
  ])(
    'answers a malformed request with a status line, a request id and the error body',
    async (bytes, line, code) => {
      const [head = '', body = ''] = (await responseTo(bytes)).split('\r\n\r\n');
      const [status, ...headers] = head.split('\r\n');
      const { error } = JSON.parse(body);
      expect([status, error.code]).toEqual([`HTTP/1.1 ${line}`, code]);
      expect(error.request_id).toMatch(/^req_/);
      expect(headers).toContain(`x-request-id: ${error.request_id}`);
    },
  );
});

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

/** A client's end of a connection that stays open. */
async function client() {
  const socket: Socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
  await once(socket, 'connect');
  let text = '';
  let wake = () => {};
  socket.on('data', (piece) => {
    text += piece;
    wake();
  });
  const closed = once(socket, 'close');
  return {
    closed,
    /** Resolves with the text received since the last call, once it matches. */
    async asks(path: string, until = /\r\n\r\n.*$/s): Promise<string> {
      socket.write(GET(path));
      return await this.reads(until);
    },
    async reads(until: RegExp): Promise<string> {
      while (!until.test(text))
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      const read = text;
      text = '';
      return read;
    },
  };
}

async function serve(handler: RequestListener, options: Partial<HttpServerOptions> = {}): Promise<void> {
  const fixed = { handler, host: '127.0.0.1', port: 0, portSetting: 'PORT', lingerMs: 300 };
  server = await listenHttp({ ...fixed, ...options });
}

const OK: RequestListener = (_request, response) => void response.end('ok');

describe('a draining server', () => {
  it('is not ready, still serves, and closes each connection after its response', async () => {
    await serve(OK);
    const [old, ready] = [await client(), await client()];
    expect(await old.asks('/before', /ok$/)).toContain('Connection: keep-alive');
    await server.drain(0);
    expect(await ready.asks('/readyz?verbose', /\}$/)).toMatch(/^HTTP\/1.1 503 .*shutting down/s);
    await ready.closed;
    for (const one of [old, await client()]) {
      expect(await one.asks('/after', /ok$/)).toMatch(/^HTTP\/1.1 200 .*Connection: close/s);
      await one.closed;
    }
  });

  it('serves one more request on a connection that it promised to keep, and then closes it', async () => {
    let streaming: ServerResponse | undefined;
    await serve((request, response) => {
      if (request.url !== '/stream') return void response.end('ok');
      response.write('begun');
      streaming = response;
    });
    const connection = await client();
    expect(await connection.asks('/stream', /begun/)).toContain('Connection: keep-alive');
    await server.drain(0);
    const closed = server.close(60_000);
    streaming?.end('ended');
    await connection.reads(/ended/);
    expect(await connection.asks('/next', /ok$/)).toMatch(/^HTTP\/1.1 200 .*Connection: close/s);
    await connection.closed;
    await closed;
  });

  it('closes idle connections, and those that were never used', async () => {
    await serve(OK);
    const [used, unused] = [await client(), await client()];
    await used.asks('/', /ok$/);
    await server.close(60_000);
    await Promise.all([used.closed, unused.closed]);
  });

  it('closes no idle connection before it has been idle for as long as was promised', async () => {
    // Far more than the test takes: the clients are at no time late.
    const promisedIdleMs = 60_000;
    await serve(OK, { promisedIdleMs });
    const [used, unused] = [await client(), await client()];
    expect(await used.asks('/', /ok$/)).toContain('Keep-Alive: timeout=60');
    await server.drain(1);
    const closed = server.close(600_000);
    // Without a promise, they would be closed after a second.
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    for (const one of [used, unused]) {
      expect(await one.asks('/late', /ok$/)).toMatch(/^HTTP\/1.1 200 .*Connection: close/s);
      await one.closed;
    }
    await closed;
  });

  it('cuts requests that have not ended after the grace time', async () => {
    await serve((_request, response) => void response.write('begun'));
    const connection = await client();
    await connection.asks('/', /begun/);
    await server.close(50);
    await connection.closed;
  });
});

describe('an idle connection', () => {
  it('is kept for longer than was promised', async () => {
    await serve(OK, { promisedIdleMs: 1_000 });
    const connection = await client();
    expect(await connection.asks('/', /ok$/)).toContain('Keep-Alive: timeout=1');
    await new Promise((resolve) => setTimeout(resolve, 1_500));
    expect(await connection.asks('/', /ok$/)).toMatch(/^HTTP\/1.1 200 /);
  });

  it('is closed once it was idle for as long as it is kept', async () => {
    await serve(OK, { promisedIdleMs: 1_000, keepAliveMs: 1_500 });
    const connection = await client();
    await connection.asks('/', /ok$/);
    await connection.closed;
  });
});

describe('a body that no one reads', () => {
  const HEAD = (length: string) => `POST /x HTTP/1.1\r\nhost: x\r\n${length}\r\n\r\n`;
  const REFUSE: RequestListener = (_request, response) =>
    void response.writeHead(404, { 'content-length': 7 }).end('refused');

  it.each(['content-length: 30000000', 'transfer-encoding: chunked'])(
    'with %s closes the connection after the response, and is not received',
    async (length) => {
      let isRead = false;
      let received: Socket | undefined;
      await serve((request, response) => {
        received = request.socket;
        request.on('data', () => {
          isRead = true;
        });
        request.pause();
        REFUSE(request, response);
      });
      const socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
      socket.on('error', () => {});
      let text = '';
      socket.on('data', (piece) => {
        text += piece;
      });
      socket.write(HEAD(length));
      const piece = Buffer.from(
        length.startsWith('content') ? 'x'.repeat(60_000) : `ea60\r\n${'x'.repeat(60_000)}\r\n`,
      );
      const closed = new Promise((resolve) => socket.on('close', resolve));
      for (let at = 0; at < 400; at++) socket.write(piece);
      await closed;
      expect(text).toMatch(/^HTTP\/1.1 404 .*Connection: close.*refused$/s);
      expect(isRead).toBe(false);
      // Of 24 MB.
      expect(received?.bytesRead).toBeLessThan(1_000_000);
    },
  );

  it('is discarded if it is small, and the connection stays open', async () => {
    await serve(REFUSE);
    const connection = await client();
    expect(await connection.asks('/', /refused$/)).toContain('Connection: keep-alive');
    const socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
    let text = '';
    socket.on('data', (piece) => {
      text += piece;
    });
    socket.write(HEAD('content-length: 5'));
    await expect.poll(() => text).toMatch(/refused$/);
    socket.write(`hello${GET('/next')}`);
    await expect.poll(() => text.match(/refused/g)).toHaveLength(2);
    socket.destroy();
  });
});
