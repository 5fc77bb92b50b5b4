import { once } from 'node:events';
import type { RequestListener, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { close, dial, serve } from '../../test/servedHttp.ts';

/** What comes for these bytes until the server closes the connection. */
async function answerTo(bytes: string): Promise<string> {
  const { socket, closed, text } = await dial();
  socket.write(bytes, 'latin1');
  await closed;
  return text();
}

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;
const POST = (headers: string, body = '') => `POST / HTTP/1.1\r\nhost: x\r\n${headers}\r\n\r\n${body}`;
const OK: RequestListener = (_request, response) => void response.end('ok');

describe('a parser error while an answer is owed', () => {
  it.each(['nonsense\r\n\r\n', 'GET /half HTTP/1.1\r\nhos'])(
    'writes nothing into the answer, and ends it: %j',
    async (after) => {
      for (const begins of [false, true]) {
        let ended: Promise<unknown> | undefined;
        let finished = false;
        await serve(
          (_request, response) => {
            response.on('finish', () => {
              finished = true;
            });
            ended = once(response, 'close');
            if (begins) response.write('begun');
          },
          { headersTimeoutMs: 1_000 },
        );
        const { socket, closed, text } = await dial();
        socket.write(GET('/'));
        await expect.poll(() => ended !== undefined).toBe(true);
        socket.write(after);
        if (after.endsWith('hos')) socket.end();
        await Promise.all([closed, ended]);
        expect([text().includes('400'), text().includes('408'), finished]).toEqual([false, false, false]);
        await close();
      }
    },
  );

  it('reaches the answers that wait behind another', async () => {
    const responses: ServerResponse[] = [];
    await serve((_request, response) => void responses.push(response));
    const { socket, closed } = await dial();
    socket.write(GET('/1') + GET('/2') + GET('/3'));
    await expect.poll(() => responses.length).toBe(3);
    const ends = Promise.all(responses.map((response) => once(response, 'close')));
    socket.write('nonsense\r\n\r\n');
    await Promise.all([closed, ends]);
  });
});

describe('a client that ends its side', () => {
  it.each(['', 'x'.repeat(10)])('after a whole request is answered', async (body) => {
    let finished = 0;
    await serve((request, response) => {
      response.on('finish', () => finished++);
      request.resume().on('end', () => setTimeout(() => response.end('the answer'), 50));
    });
    const { socket, closed, text } = await dial();
    socket.end(POST(`content-length: ${body.length}`, body));
    await closed;
    expect(text()).toMatch(/^HTTP\/1.1 200 .*the answer/s);
    expect(finished).toBe(1);
  });

  it.each([false, true])(
    'and has left is found out, also while nothing is sent (begun: %s)',
    async (begins) => {
      let left: Promise<unknown> | undefined;
      let finished = false;
      await serve((_request, response) => {
        left = once(response, 'close');
        response.on('finish', () => {
          finished = true;
        });
        if (begins) response.write('begun');
      });
      const { socket, text } = await dial();
      socket.write(GET('/'));
      if (begins) await expect.poll(text).toContain('begun');
      await expect.poll(() => left !== undefined).toBe(true);
      // Later than one that ends its side with its request.
      await sleep(150);
      socket.destroy();
      await left;
      expect(finished).toBe(false);
    },
  );

  it('waits through the probes, which change nothing of the answer', async () => {
    await serve((_request, response) => {
      response.write('first');
      setTimeout(() => response.end('second'), 300);
    });
    const { socket, closed, text } = await dial();
    socket.write(GET('/'));
    // Later than with its request: it is asked at once.
    await sleep(60);
    socket.end();
    await closed;
    expect(text()).toMatch(/5\r\nfirst\r\n0+6\r\nsecond\r\n0\r\n\r\n$/);
  });
});

describe('the head of a request', () => {
  it.each([
    ['two hosts', 'GET / HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n', 400, 'malformed_request'],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', 400, 'malformed_request'],
    [
      'another transfer coding',
      POST('transfer-encoding: gzip, chunked', '0\r\n\r\n'),
      501,
      'transfer_coding_not_supported',
    ],
    ['two lengths', POST('content-length: 1\r\ncontent-length: 2', 'xx'), 400, 'malformed_request'],
    [
      'a length and chunks',
      POST('content-length: 5\r\ntransfer-encoding: chunked', '0\r\n\r\n'),
      400,
      'malformed_request',
    ],
    ['an unknown expectation', POST('expect: nonsense\r\ncontent-length: 1', 'x'), 417, 'expectation_failed'],
    [
      'too many headers',
      `GET / HTTP/1.1\r\nhost: x\r\n${'a: b\r\n'.repeat(2_001)}\r\n`,
      431,
      'headers_too_large',
    ],
    ['another version', 'GET / HTTP/2.0\r\nhost: x\r\n\r\n', 505, 'http_version_not_supported'],
    ['a tunnel', 'CONNECT x:443 HTTP/1.1\r\nhost: x\r\n\r\n', 405, 'method_not_allowed'],
  ])('with %s is refused in the error body', async (_what, bytes, status, code) => {
    await serve(OK);
    const [head = '', body = ''] = (await answerTo(bytes)).split('\r\n\r\n');
    expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    expect(JSON.parse(body).error.code).toBe(code);
  });

  it('may have 2,000 lines, and 64 KiB in one of them', async () => {
    await serve((request, response) => void response.end(request.headers.last));
    const [many, large] = [await dial(), await dial()];
    many.socket.end(`GET / HTTP/1.1\r\nhost: x\r\n${'a: b\r\n'.repeat(1_998)}last: seen\r\n\r\n`);
    large.socket.end(`GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(64 * 1024)}\r\nlast: seen\r\n\r\n`);
    await Promise.all([many.closed, large.closed]);
    for (const { text } of [many, large]) expect(text()).toMatch(/^HTTP\/1.1 200 .*seen$/s);
  });

  it('OPTIONS * is answered for the whole server', async () => {
    await serve(OK);
    const { socket, closed, text } = await dial();
    socket.end('OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n');
    await closed;
    expect(text()).toMatch(/^HTTP\/1.1 204 .*allow: GET, /s);
  });
});

describe('a slow client', () => {
  const limits = { headersTimeoutMs: 1_000, bodyTimeoutMs: 500 };

  it('has the time of the setting for a head; one that opened its connection in advance is idle', async () => {
    await serve(OK, limits);
    const [half, early] = [await dial(), await dial()];
    half.socket.write('GET / HTTP/1.1\r\nhost: ');
    await half.closed;
    expect(half.text()).toMatch(/^HTTP\/1.1 408 .*request_timeout/s);
    // Node has found it as late as the other.
    early.socket.write('GET / HTTP/1.1\r\nconnection: close\r\nhost: x\r\n\r\n');
    await early.closed;
    expect(early.text()).toMatch(/^HTTP\/1.1 200 /);
  });

  it('that never sends is closed without an answer', async () => {
    await serve(OK, { ...limits, keepAliveMs: 1_500 });
    const silent = await dial();
    await silent.closed;
    expect(silent.text()).toBe('');
  });

  it('that sends line ends instead of another request is closed as one that is idle', async () => {
    await serve(OK, { headersTimeoutMs: 500, keepAliveMs: 500 });
    const idle = await dial();
    idle.socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    while (!idle.text().endsWith('ok')) await sleep(5);
    idle.socket.write('\r\n\r\n');
    await idle.closed;
  });

  it('may not send a body byte by byte, but at a low pace', async () => {
    await serve((request, response) => {
      request.resume();
      request.on('end', () => response.end('received'));
    }, limits);
    const slow = await dial();
    slow.socket.write(POST('content-length: 1000'));
    const drip = setInterval(() => slow.socket.write('x'), 100);
    const steady = await dial();
    steady.socket.write(POST(`content-length: ${15 * 4_000}`));
    for (let at = 0; at < 15; at++) {
      steady.socket.write('x'.repeat(4_000));
      await sleep(100);
    }
    await slow.closed;
    clearInterval(drip);
    expect(slow.text()).toMatch(/^HTTP\/1.1 408 .*request_timeout/s);
    await expect.poll(steady.text).toMatch(/^HTTP\/1.1 200 .*received/s);
    steady.socket.destroy();
  });
});

it('holds no more connections than the setting says, and counts those that it closes', async () => {
  let refused = 0;
  const metrics = { gauge: () => {}, counter: () => ({ inc: () => refused++ }) };
  await serve(OK, { maxConnections: 2, metrics });
  const [first, second] = [await dial(), await dial()];
  const third = await dial();
  await third.closed;
  expect([third.text(), refused]).toEqual(['', 1]);
  first.socket.end(GET('/'));
  await first.closed;
  expect(first.text()).toMatch(/^HTTP\/1.1 200 /);
  const fourth = await dial();
  fourth.socket.end(GET('/'));
  await fourth.closed;
  expect(fourth.text()).toMatch(/^HTTP\/1.1 200 /);
  second.socket.destroy();
});
