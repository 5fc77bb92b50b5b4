import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { HeaderList } from './responseHeaders.ts';
import { writeHead, writeMessage } from './writeHead.ts';

const NAMES = [
  'x-svc-model',
  'content-type',
  'Content-Encoding',
  'content-length',
  'connection',
  'date',
  'retry-after',
  'keep-alive',
  'content-disposition',
  'trailer',
  'transfer-encoding',
  'vary',
  'bad name',
  '',
];
const VALUES: Readonly<Record<string, readonly string[]>> = {
  'content-length': ['4'],
  connection: ['close', 'keep-alive', 'Close'],
  'transfer-encoding': ['chunked'],
  trailer: ['x-later'],
};
const ANY_VALUES = [
  'application/json',
  '',
  'a\tb',
  'é',
  'a\r\nb: c',
  '\u0000',
  'łódź',
  'x'.repeat(600),
  '1',
  '1',
];
const STATUSES = [200, 201, 204, 206, 299, 304, 400, 429, 500, 599];
const HEADS = [
  'POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n',
  'POST / HTTP/1.0\r\nhost: a\r\ncontent-length: 0\r\n\r\n',
  'GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
  'HEAD / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
];

it('writes the same bytes as Node does, or fails as it does, for any headers', async () => {
  const random = seeded(39);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  for (let round = 0; round < 600; round++) {
    const list: HeaderList = [];
    for (let left = Math.floor(random() * 7); left > 0; left--) {
      const name = random() < 0.15 ? pick(NAMES) : pick(NAMES.slice(0, 8));
      list.push(name, pick(random() < 0.1 ? ANY_VALUES : (VALUES[name] ?? ANY_VALUES.slice(0, 4))));
    }
    const [status, request, presets] = [pick(STATUSES), pick(HEADS), random() < 0.1];
    const answer = (write: typeof writeHead) =>
      bytesOf(request, (_, response) => {
        if (presets) response.setHeader('x-set', 'before');
        try {
          write(response, status, list);
          response.end('body');
        } catch (error) {
          response.destroy();
          failures.push(String(error));
        }
      });
    const failures: string[] = [];
    const ours = await answer(writeHead);
    const nodes = await answer((response, code, headers) => void response.writeHead(code, headers));
    expect(
      { bytes: withoutDate(ours), failed: failures.length % 2 },
      JSON.stringify([status, request, list]),
    ).toEqual({
      bytes: withoutDate(nodes),
      failed: 0,
    });
  }
});

it('writes a whole response, short or long, with the bytes that Node writes', async () => {
  for (const request of HEADS) {
    for (const text of ['', 'body', 'é'.repeat(100), 'x'.repeat(5_000)]) {
      const body = Buffer.from(text);
      for (const length of [['content-length', String(body.length)], ['transfer-encoding', 'chunked'], []]) {
        const list = ['content-type', 'text/plain', ...length];
        for (const status of [200, 204, 500]) {
          const ours = await bytesOf(request, (_, response) => writeMessage(response, status, list, body));
          const nodes = await bytesOf(request, (_, response) => response.writeHead(status, list).end(body));
          expect(withoutDate(ours), JSON.stringify([request, text.length, list])).toEqual(withoutDate(nodes));
        }
      }
    }
  }
});

it('calls a writeHead that was replaced', async () => {
  const bytes = await bytesOf(HEADS[0] as string, (_, response) => {
    const { writeHead: nodes } = response;
    response.writeHead = ((status: number) => nodes.call(response, status + 1)) as typeof nodes;
    writeHead(response, 200, ['x-a', 'b']);
    response.end();
  });
  expect(bytes).toMatch(/^HTTP\/1.1 201 /);
});

let answerNext: RequestListener = () => {};
const server = createServer((request, response) => answerNext(request, response));
beforeAll(() => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve)));
afterAll(() => void server.close());

/** The answer to one request at a time. */
function bytesOf(request: string, listener: RequestListener): Promise<string> {
  answerNext = listener;
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  socket.end(request);
  return text(socket);
}

/**
 * The order of the lines is no part of the meaning; Node writes what it reads in its place, this service after the others. The
 * next second may begin between two answers.
 */
function withoutDate(bytes: string): readonly string[] {
  const [head = '', ...body] = bytes.split('\r\n\r\n');
  const lines = head.split('\r\n').map((line) => line.replace(/^Date: \w{3}, \d.* GMT$/, 'Date'));
  return [...lines.sort(), ...body];
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}
