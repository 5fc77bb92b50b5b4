import { expect, it } from 'vitest';
import { createMessageReader } from './httpMessages.ts';

const MESSAGES = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=1\r\n0123456789\r\n0\r\nt: 1\r\n\r\n',
  'GET / HTTP/1.1\r\nhost: x\r\n\r\n',
  'HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n',
].join('');

function readInPieces(size: number) {
  const read: { head: string; body: string }[] = [];
  let ended = 0;
  const push = createMessageReader({
    onHead: (head) => read.push({ head, body: '' }),
    onBody: (bytes) => {
      const last = read.at(-1);
      if (last) last.body += bytes.toString('latin1');
    },
    onEnd: () => ended++,
  });
  const bytes = Buffer.from(MESSAGES);
  for (let at = 0; at < bytes.length; at += size) push(bytes.subarray(at, at + size));
  return { read: read.map(({ head, body }) => [head.split('\r\n')[0], body]), ended };
}

it('reads successive messages, however they are split', () => {
  for (const size of [1, 2, 3, 7, 20, MESSAGES.length]) {
    expect(readInPieces(size)).toEqual({
      read: [
        ['HTTP/1.1 200 OK', 'hello'],
        ['HTTP/1.1 200 OK', 'abc0123456789'],
        ['GET / HTTP/1.1', ''],
        ['HTTP/1.1 204 No Content', ''],
      ],
      ended: 4,
    });
  }
});

it('refuses messages whose end it cannot find', () => {
  const handler = { onHead: () => {}, onBody: () => {}, onEnd: () => {} };
  expect(() => createMessageReader(handler)(Buffer.from('HTTP/1.1 200 OK\r\n\r\n'))).toThrow(
    'without a length',
  );
  expect(() =>
    createMessageReader(handler)(Buffer.from('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n')),
  ).toThrow('invalid chunk length');
});
