import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { type HttpServer, listenHttp } from './httpServer.ts';
import { RequestMessage } from './requestMessage.ts';

let server: HttpServer;
afterEach(() => server.close(0));

type Handle = (request: RequestMessage, response: ServerResponse) => void;

async function dial(handle: Handle): Promise<Socket> {
  const handler = (request: IncomingMessage, response: ServerResponse) => {
    if (!(request instanceof RequestMessage)) throw new Error('is another class');
    handle(request, response);
  };
  server = await listenHttp({ handler, host: '127.0.0.1', port: 0, portSetting: 'PORT' });
  const socket = connect(server.port, '127.0.0.1').setEncoding('utf8');
  await once(socket, 'connect');
  return socket;
}

async function read(socket: Socket, until: RegExp): Promise<string> {
  let text = '';
  for await (const piece of socket.iterator({ destroyOnReturn: false })) {
    text += piece;
    if (until.test(text)) return text;
  }
  return text;
}

/** Answers with the body, which a reader has taken. */
const echo: Handle = (request, response) => {
  const chunks: Buffer[] = [];
  const isTaken = request.readBodyBy({
    add: (chunk) => chunks.push(chunk),
    end: () => response.end(`${isTaken} <${Buffer.concat(chunks)}>`),
  });
};

const POST = (body: string, rest = '') =>
  `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length + rest.length}\r\n\r\n${body}`;

describe('a body that goes to a reader', () => {
  it('arrives whole or in parts, on one connection, and behind another one', async () => {
    const socket = await dial(echo);
    socket.write(POST('whole'));
    expect(await read(socket, />/)).toContain('true <whole>');
    socket.write(POST('begun ', 'ended'));
    await new Promise((resolve) => setTimeout(resolve, 20));
    socket.write('ended');
    expect(await read(socket, />/)).toContain('true <begun ended>');
    socket.write(`${POST('one')}${POST('two')}`);
    expect(await read(socket, />.*>/s)).toMatch(/true <one>.*true <two>/s);
    socket.destroy();
  });

  it('is a stream if a part of it has arrived', async () => {
    const socket = await dial(async (request, response) => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      const isTaken = request.readBodyBy({ add() {}, end() {} });
      response.end(`${isTaken} <${await request.setEncoding('utf8').toArray()}>`);
    });
    socket.write(POST('whole'));
    expect(await read(socket, />/)).toContain('false <whole>');
    socket.destroy();
  });

  it('that breaks off closes its request, without an error', async () => {
    const parts: string[] = [];
    let closed: Promise<unknown> | undefined;
    const socket = await dial((request) => {
      closed = new Promise((resolve) => request.on('close', resolve));
      request.readBodyBy({ add: (chunk) => parts.push(String(chunk)), end: () => parts.push('end') });
    });
    socket.write(POST('begun', ' and more'));
    while (parts.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    socket.destroy();
    await closed;
    expect(parts).toEqual(['begun']);
  });

  it('is not kept by its connection, which waits for the next request', async () => {
    let client: Socket | undefined;
    const socket = await dial((request, response) => {
      client = request.socket;
      echo(request, response);
    });
    socket.write(POST('whole'));
    await read(socket, />/);
    const { parser } = client as unknown as { readonly parser: { readonly incoming: unknown } };
    expect(parser.incoming).toBe(null);
    socket.destroy();
  });
});
