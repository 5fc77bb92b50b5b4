import type { Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { cutsOf, piecesOf, randomOf } from '../../../test/differential/random.ts';
import { answerOf, bodyOf, call, type RawServer, startRawServer, Told } from '../../../test/httpCalls.ts';
import { HttpPool, type HttpPoolOptions } from './httpPool.ts';

const LONG = { connectTimeoutMs: 60_000, firstByteTimeoutMs: 60_000, chunkTimeoutMs: 60_000 };
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function serve(onData: Parameters<typeof startRawServer>[0], options: Partial<HttpPoolOptions> = {}) {
  const server = await startRawServer(onData);
  const pool = poolAt(server, options);
  return { server, pool };
}

function poolAt(server: RawServer, options: Partial<HttpPoolOptions> = {}): HttpPool {
  const pool = new HttpPool(new URL(`http://127.0.0.1:${server.port}`), { ...LONG, ...options });
  closing.push(
    () => pool.destroy(),
    () => server.close(),
  );
  return pool;
}

const isWhole = (text: string) => text.endsWith('{}');
const poll = (read: () => unknown) => expect.poll(read);

describe('connections', () => {
  it('are used again, and there are as many as calls at once', async () => {
    const { server, pool } = await serve(
      (socket, text) => void (isWhole(text) && socket.write(answerOf('a'))),
    );
    for (let at = 0; at < 3; at++) expect((await call(pool).over).text).toBe('a');
    expect(server.connections).toBe(1);
    await Promise.all([call(pool), call(pool), call(pool)].map(({ over }) => over));
    await call(pool).over;
    expect(server.connections).toBe(3);
  });

  it.each([
    ['another answer', answerOf('planted')],
    ['one byte', 'x'],
    ['a line end', '\r\n'],
  ])('are closed if %s comes with the answer, which itself is valid', async (_what, more) => {
    const { server, pool } = await serve(
      (socket, _text, at) => void socket.write(answerOf(String(at)) + more),
    );
    for (let at = 0; at < 3; at++) {
      const told = await call(pool).over;
      expect([told.text, told.error]).toEqual([String(at), undefined]);
    }
    expect(server.connections).toBe(3);
  });

  it('are closed if the server sends what no one asked for', async () => {
    const sockets: Socket[] = [];
    const { server, pool } = await serve((socket, _text, at) => {
      sockets[at] = socket;
      socket.write(answerOf(String(at)));
    });
    await call(pool).over;
    sockets[0]?.write(answerOf('planted'));
    await poll(() => sockets[0]?.destroyed).toBe(true);
    expect((await call(pool).over).text).toBe('1');
    expect(server.connections).toBe(2);
  });

  it('that the server closes meanwhile are not used again', async () => {
    const { server, pool } = await serve((socket, _text, at) => void socket.write(answerOf(String(at))));
    await call(pool).over;
    for (const socket of server.sockets) socket.end();
    await poll(() => server.sockets.size).toBe(0);
    expect((await call(pool).over).text).toBe('1');
  });

  it.each([
    'connection: close\r\n',
    'keep-alive: timeout=2\r\n',
    'connection: x, close\r\nkeep-alive: timeout=9\r\n',
  ])('are not used again after %j', async (header) => {
    const { server, pool } = await serve((socket) => void socket.write(answerOf('a', header)));
    for (let at = 0; at < 2; at++) await call(pool).over;
    expect(server.connections).toBe(2);
    await poll(() => server.sockets.size).toBe(0);
  });

  it('fail the call that meets their end, and repeat nothing', async () => {
    const { server, pool } = await serve((socket, text) => {
      if (text.split('POST').length > 2) socket.resetAndDestroy();
      else socket.write(answerOf('a'));
    });
    await call(pool).over;
    const { error, status } = await call(pool).over;
    expect(status).toBeUndefined();
    expect(['connection_closed', 'ECONNRESET', 'EPIPE']).toContain((error as { code?: string }).code);
    expect(server.connections).toBe(1);
  });

  it('are closed with the pool; what was begun is finished', async () => {
    const waiting: Socket[] = [];
    const { server, pool } = await serve((socket, _text, at) => {
      if (at === 0) socket.write(answerOf('a'));
      else waiting.push(socket);
    });
    const [first, second] = [call(pool), call(pool)];
    await first.over;
    await poll(() => waiting.length).toBe(1);
    pool.close();
    await poll(() => server.sockets.size).toBe(1);
    waiting[0]?.write(answerOf('b'));
    expect((await second.over).text).toBe('b');
    await poll(() => server.sockets.size).toBe(0);
    expect((await call(pool).over).error).toMatchObject({ code: 'pool_closed' });
  });
});

describe('a request', () => {
  it('arrives as it was given, in one piece or several', async () => {
    const long = 'x'.repeat(300_000);
    for (const pieces of [['ab'], ['a', 'b'], [long], ['a', long, 'b'], []]) {
      const length = pieces.join('').length;
      const { server, pool } = await serve((socket, text) => {
        const head = text.indexOf('\r\n\r\n');
        if (head >= 0 && text.length === head + 4 + length) socket.write(answerOf('a'));
      });
      const told = await call(pool, { path: '/v1/x', headers: ['x-a', 'é'], body: bodyOf(...pieces) }).over;
      expect(told.text).toBe('a');
      const head = `POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:${server.port}\r\nconnection: keep-alive\r\nx-a: é\r\ncontent-length: ${length}\r\n\r\n`;
      expect(server.received).toEqual([head + pieces.join('')]);
    }
  });

  it('that is not valid is not sent', async () => {
    const { server, pool } = await serve(() => {});
    for (const headers of [
      ['x', 'a\r\ncontent-length: 0\r\n\r\nGET / HTTP/1.1'],
      ['Transfer-Encoding', 'chunked'],
    ]) {
      const told = call(pool, { headers });
      expect(told.error).toMatchObject({ code: 'bad_request' });
    }
    expect(server.connections).toBe(0);
  });

  it('is not written if its handler aborts first or throws, and the connection serves the next one', async () => {
    const { server, pool } = await serve(
      (socket, text) => void (isWhole(text) && socket.write(answerOf('a'))),
    );
    for (const onStart of [
      (controller: { abort(reason: Error): void }) => controller.abort(new Error('no')),
      () => {
        throw new Error('no');
      },
    ]) {
      const told = new Told();
      told.onStart = onStart;
      expect((await call(pool, { path: '/never' }, told).over).error?.message).toBe('no');
    }
    expect((await call(pool).over).text).toBe('a');
    expect(server.connections).toBe(1);
    expect(server.received[0]).not.toContain('never');
  });

  it('may be answered before all of it is there; then the connection is closed', async () => {
    let isAnswered = false;
    const { server, pool } = await serve((socket) => {
      if (isAnswered) return;
      isAnswered = true;
      socket.pause();
      socket.write(answerOf('a'));
    });
    const told = await call(pool, { body: bodyOf('x'.repeat(20_000_000), 'x'.repeat(1_000_000)) }).over;
    expect([told.text, told.error]).toEqual(['a', undefined]);
    for (const socket of server.sockets) socket.resume();
    await poll(() => server.sockets.size).toBe(0);
  });
});

describe('an aborted call', () => {
  const left = new Error('left');

  it('has no connection if there was none yet', async () => {
    const { server, pool } = await serve((socket) => void socket.write(answerOf('a')));
    const told = call(pool);
    told.controller?.abort(left);
    expect(told.error).toBe(left);
    // Another one is connecting when it is aborted.
    const second = call(pool);
    setImmediate(() => second.controller?.abort(left));
    expect((await second.over).error).toBe(left);
    expect((await call(pool).over).text).toBe('a');
    expect(server.received.join('').split('POST')).toHaveLength(2);
  });

  it.each([
    'HTTP/1.1 200',
    'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab',
  ])('closes its connection after %j', async (part) => {
    const { server, pool } = await serve((socket) => void socket.write(part));
    const told = call(pool);
    await poll(() => server.received[0]).toContain('{}');
    told.controller?.abort(left);
    expect(told.error).toBe(left);
    await poll(() => server.sockets.size).toBe(0);
  });

  it('can abort itself while it is told of data', async () => {
    const { server, pool } = await serve((socket) => void socket.write(answerOf('a')));
    const told = new Told();
    told.onData = (controller) => controller.abort(left);
    expect((await call(pool, {}, told).over).error).toBe(left);
    await poll(() => server.sockets.size).toBe(0);
  });

  it('does nothing to the next one on its connection', async () => {
    const waiting: Socket[] = [];
    const { server, pool } = await serve((socket, text) => {
      if (text.split('POST').length > 2) waiting.push(socket);
      else socket.write(answerOf('a'));
    });
    const first = await call(pool).over;
    const second = call(pool);
    await poll(() => waiting.length).toBe(1);
    first.controller?.pause();
    first.controller?.abort(left);
    first.controller?.resume();
    waiting[0]?.write(answerOf('b'));
    expect((await second.over).text).toBe('b');
    expect([server.connections, first.error]).toEqual([1, undefined]);
  });
});

describe('a call fails', () => {
  it('if no answer comes in time', async () => {
    const { pool } = await serve(() => {}, { firstByteTimeoutMs: 100 });
    expect((await call(pool).over).error).toMatchObject({ code: 'head_timeout' });
  });

  it('if an answer stops, but not while no one wants more of it', async () => {
    const { pool } = await serve((socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\nab'), {
      chunkTimeoutMs: 100,
    });
    const told = new Told();
    told.onData = (controller) => controller.pause();
    call(pool, {}, told);
    await poll(() => told.text).toBe('ab');
    // Another one's time-out passes meanwhile.
    expect((await call(pool).over).error).toMatchObject({ code: 'body_timeout' });
    expect(told.isOver).toBe(false);
    told.controller?.resume();
    expect((await told.over).error).toMatchObject({ code: 'body_timeout' });
  });

  it('if the server can not be reached', async () => {
    const { server, pool } = await serve(() => {});
    server.close();
    expect((await call(pool).over).error).toMatchObject({ code: 'ECONNREFUSED' });
  });

  it('with the pool', async () => {
    const { server, pool } = await serve(() => {});
    const told = call(pool);
    await poll(() => server.received[0]).toContain('{}');
    const waiting = call(pool);
    pool.destroy();
    for (const one of [told, waiting]) expect(one.error).toMatchObject({ code: 'pool_closed' });
  });
});

describe('a slow reader', () => {
  it('makes the server wait, and gets everything', async () => {
    const size = 30_000_000;
    let written = 0;
    const { pool } = await serve((socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
      const chunk = Buffer.alloc(100_000, 'x');
      const more = () => {
        while (written < size) {
          written += chunk.length;
          if (!socket.write(chunk)) return void socket.once('drain', more);
        }
      };
      more();
    });
    let length = 0;
    const told = new Told();
    told.onData = (controller) => {
      length += told.text.length;
      told.text = '';
      if (length > 1_000_000) return;
      controller.pause();
      setImmediate(() => controller.resume());
    };
    call(pool, {}, told);
    await told.over;
    expect([told.error, length]).toEqual([undefined, size]);
  });

  it('that paused at the end leaves a connection that reads', async () => {
    const { server, pool } = await serve(
      (socket, text) => void (isWhole(text) && socket.write(answerOf('a'))),
    );
    for (let at = 0; at < 3; at++) {
      const told = new Told();
      told.onData = (controller) => controller.pause();
      expect((await call(pool, {}, told).over).text).toBe('a');
    }
    expect(server.connections).toBe(1);
  });
});

describe('whatever a server does and whoever leaves', () => {
  it('no call gets anything of the answer to another', async () => {
    const random = randomOf(20_261_124);
    const { server, pool } = await serve((socket, text) => {
      const requests = text.split('POST /').slice(1);
      if (!isWhole(text)) return;
      void answerOddly(socket, requests.at(-1)?.split(' ')[0] ?? '');
    });
    /** In pieces; some break off, or have another answer behind them. */
    async function answerOddly(socket: Socket, id: string): Promise<void> {
      const body = `<${id}>`.repeat(1 + random.integer(random.pick([2, 2_000])));
      const framed = random.pick([
        answerOf(body),
        answerOf(body, 'connection: close\r\n'),
        `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
      ]);
      const behind = random.chance(0.3) ? random.pick([answerOf('<planted>'), 'x', '\r\n\r\n']) : '';
      const bytes = Buffer.from(framed + behind);
      const cuts = cutsOf(random, framed.length - 1).slice(0, 5);
      for (const piece of piecesOf(bytes, cuts)) {
        if (random.chance(0.03)) socket.destroy();
        socket.write(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }

    let next = 0;
    let answered = 0;
    const worker = async () => {
      while (next < 600) {
        const id = String(next++);
        const told = call(pool, { path: `/${id}` });
        if (random.chance(0.2)) {
          for (let turns = random.integer(6); turns > 0; turns--)
            await new Promise((resolve) => setImmediate(resolve));
          told.controller?.abort(new Error('left'));
        }
        await told.over;
        expect(`<${id}>`.repeat(2_001).startsWith(told.text)).toBe(true);
        if (told.error) continue;
        answered++;
        expect(told.text).toMatch(/>$/);
      }
    };
    await Promise.all(Array.from({ length: 20 }, worker));
    expect(answered).toBeGreaterThan(100);
    expect(server.connections).toBeGreaterThan(20);
  });
});
