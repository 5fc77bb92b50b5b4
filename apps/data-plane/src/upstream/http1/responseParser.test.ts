import { describe, expect, it } from 'vitest';
import { ResponseParser } from './responseParser.ts';

/** Reads the pieces, each followed by bytes of another read. */
function read(pieces: readonly string[], { ends = false } = {}) {
  const events: string[] = [];
  let headers: object = {};
  const parser = new ResponseParser({
    onHead(status, its) {
      events.push(String(status));
      headers = { ...its };
    },
    onData: (chunk) => void events.push(chunk.toString('latin1')),
  });
  parser.begin();
  let rest = '';
  for (const piece of pieces) {
    const at = parser.read(Buffer.from(`${piece}\r\n\r\n0\r\n\r\n`, 'latin1'), piece.length);
    rest += piece.slice(at);
  }
  if (ends) parser.finish();
  return { events, headers, rest, isOver: parser.isOver, keepsAlive: parser.keepsAlive };
}

const OK = 'HTTP/1.1 200 OK\r\n';
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`;
const NESTED = 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nX';

describe('an answer', () => {
  it('ends where its length says, and the rest is left', () => {
    const answer = `${OK}content-length: 2\r\n\r\nab`;
    expect(read([answer])).toMatchObject({ events: ['200', 'ab'], rest: '', isOver: true, keepsAlive: true });
    expect(read([answer + NESTED])).toMatchObject({ events: ['200', 'ab'], rest: NESTED, isOver: true });
    expect(read([`${OK}content-length: 0\r\n\r\n`])).toMatchObject({ events: ['200'], isOver: true });
  });

  it('ends with its last chunk, and loses extensions and trailers', () => {
    const answer = `${CHUNKED}1;a=b\r\na\r\n2;c="d e"\r\nbc\r\n0\r\nx-t: 1\r\n\r\n`;
    expect(read([answer])).toMatchObject({
      events: ['200', 'abc'],
      rest: '',
      isOver: true,
      keepsAlive: true,
    });
    expect(read([answer + NESTED])).toMatchObject({ events: ['200', 'abc'], rest: NESTED });
  });

  it('ends with the connection otherwise, which is not used again', () => {
    expect(read([`${OK}\r\na`, 'b'], { ends: true })).toMatchObject({
      events: ['200', 'a', 'b'],
      isOver: true,
      keepsAlive: false,
    });
  });

  it.each([204, 304])('has no body with the status %i', (status) => {
    const answer = `HTTP/1.1 ${status} X\r\n\r\n`;
    expect(read([answer + NESTED])).toMatchObject({ events: [String(status)], rest: NESTED, isOver: true });
  });

  it('follows those that announce it, of which there are few', () => {
    const hints = 'HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n';
    const answer = `${OK}content-length: 1\r\n\r\na`;
    expect(read([hints + hints + answer]).events).toEqual(['200', 'a']);
    expect(() => read([hints.repeat(17) + answer])).toThrow('too many interim answers');
  });

  it('is the same in any pieces', () => {
    for (const answer of [
      `${OK}X-A: b\r\ncontent-length: 3\r\n\r\nabc`,
      `HTTP/1.1 103 X\r\n\r\n${CHUNKED}A\r\n0123456789\r\n1;x\r\na\r\n0\r\nt: u\r\n\r\n`,
    ]) {
      const whole = read([answer]);
      for (let cut = 1; cut < answer.length; cut++) {
        const { events, ...rest } = read([answer.slice(0, cut), answer.slice(cut)]);
        expect([events[0], events.slice(1).join('')]).toEqual([whole.events[0], whole.events[1]]);
        expect(rest).toEqual({ ...rest, headers: whole.headers, isOver: true, keepsAlive: true, rest: '' });
      }
      const { events } = read([...answer]);
      expect(events.slice(1).join('')).toBe(whole.events[1]);
    }
  });

  it('has its names in lower case, its values without blanks around them, and repeated ones as a list', () => {
    const head =
      'X-One: \t a b \t\r\nx-two:\r\nset-cookie: a\r\nSet-Cookie: b\r\n__proto__: p\r\nconstructor: c\r\n';
    const { headers } = read([`${OK}${head}content-length: 0\r\n\r\n`]);
    expect(Object.entries(headers)).toEqual([
      ['x-one', 'a b'],
      ['x-two', ''],
      ['set-cookie', ['a', 'b']],
      ['__proto__', 'p'],
      ['constructor', 'c'],
      ['content-length', '0'],
    ]);
  });

  it.each([
    ['connection: close', false],
    ['Connection: x, Close', false],
    ['connection: keep-alive', true],
    ['connection: Keep-Alive, x', true],
  ])('says by "%s" whether the connection may be used again', (header, keepsAlive) => {
    expect(read([`${OK}${header}\r\ncontent-length: 0\r\n\r\n`]).keepsAlive).toBe(keepsAlive);
  });

  it('of HTTP/1.0 is the last one', () => {
    const answer = 'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na';
    expect(read([answer])).toMatchObject({ isOver: true, keepsAlive: false });
  });
});

describe('an answer is refused', () => {
  const LENGTH = 'content-length: 1\r\n';
  it.each([
    ['with two framings', `${OK}${LENGTH}transfer-encoding: chunked\r\n\r\n`],
    ['with two framings, the other way round', `${OK}transfer-encoding: chunked\r\n${LENGTH}\r\n`],
    ['with two lengths', `${OK}${LENGTH}content-length: 2\r\n\r\n`],
    ['with a length twice', `${OK}${LENGTH}${LENGTH}\r\n`],
    ['with a list of lengths', `${OK}content-length: 1, 1\r\n\r\n`],
    ['with a signed length', `${OK}content-length: +1\r\n\r\n`],
    ['with a hexadecimal length', `${OK}content-length: 0x1\r\n\r\n`],
    ['with an empty length', `${OK}content-length:\r\n\r\n`],
    ['with a length beyond any', `${OK}content-length: 9999999999999999\r\n\r\n`],
    ['with two codings', `${OK}transfer-encoding: gzip, chunked\r\n\r\n`],
    ['with a coding twice', `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`],
    ['with an unknown coding', `${OK}transfer-encoding: identity\r\n\r\n`],
    ['with a coding in HTTP/1.0', 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['with a space before a colon', `${OK}content-length : 1\r\n\r\n`],
    ['with a folded line', `${OK}x: a\r\n b: c\r\n\r\n`],
    ['with a bare LF', `${OK}x: a\ncontent-length: 1\r\n\r\n`],
    ['with a bare LF that comes first', `${OK}x: a\n`],
    ['with a bare CR', `${OK}x: a\rcontent-length: 1\r\n\r\n`],
    ['with a NUL', `${OK}x: a\u0000\r\n\r\n`],
    ['with a line without a colon', `${OK}x\r\n\r\n`],
    ['with a line without a name', `${OK}: x\r\n\r\n`],
    ['with a name that is no token', `${OK}ü: x\r\n\r\n`],
    ['with a line end first', `\r\n${OK}${LENGTH}\r\na`],
    ['of another protocol', '220 mail.example ESMTP\r\n'],
    ['of HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['with a short status', 'HTTP/1.1 20 OK\r\n\r\n'],
    ['with a long status', 'HTTP/1.1 2000 OK\r\n\r\n'],
    ['with a status below all', 'HTTP/1.1 099 OK\r\n\r\n'],
    ['that asks to go on', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['that changes the protocol', 'HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
    ['that announces another, with a body', `HTTP/1.1 103 X\r\n${LENGTH}\r\n`],
    ['with a body with 204', `HTTP/1.1 204 X\r\n${LENGTH}\r\n`],
    ['with chunks with 304', 'HTTP/1.1 304 X\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['with a head that is too long', `${OK}x: ${'x'.repeat(16 * 1024)}\r\n\r\n`],
    ['with a head that never ends', `${OK}${'x: y\r\n'.repeat(4_000)}`],
    ['with a chunk without a size', `${CHUNKED}\r\na`],
    ['with a size that is no number', `${CHUNKED}g\r\na`],
    ['with a prefix before the size', `${CHUNKED}0x1\r\na`],
    ['with a space after the size', `${CHUNKED}1 \r\na`],
    ['with a size beyond any', `${CHUNKED}${'0'.repeat(12)}1\r\na`],
    ['with a bare LF after the size', `${CHUNKED}1\na`],
    ['with a chunk longer than its size', `${CHUNKED}1\r\nab\r\n`],
    ['with a bare LF after a chunk', `${CHUNKED}1\r\na\n0\r\n\r\n`],
    ['with an odd extension', `${CHUNKED}1;=\r\na`],
    ['with an extension that hides a line end', `${CHUNKED}1;a="\n"\r\na`],
    ['with endless extensions', `${CHUNKED}${'1;a=b\r\na\r\n'.repeat(6_000)}`],
    ['with endless trailers', `${CHUNKED}0\r\n${'a: b\r\n'.repeat(6_000)}`],
    ['with a trailer that is no header', `${CHUNKED}0\r\na\r\n\r\n`],
    ['with a folded trailer', `${CHUNKED}0\r\n a: b\r\n\r\n`],
    ['with a bare LF after its trailers', `${CHUNKED}0\r\n\n`],
  ])('%s', (_what, bytes) => {
    expect(() => read([bytes])).toThrow('not HTTP/1.1');
    expect(() => read([...bytes])).toThrow('not HTTP/1.1');
  });

  it.each([
    ['nothing', ''],
    ['part of its head', `${OK}x: y\r\n`],
    ['part of its body', `${OK}content-length: 2\r\n\r\na`],
    ['part of its chunks', `${CHUNKED}1\r\na\r\n`],
    ['all but its last line end', `${CHUNKED}0\r\n`],
  ])('if the connection ends after %s', (_what, bytes) => {
    expect(() => read([bytes], { ends: true })).toThrow('closed the connection early');
  });
});
