import { cutsOf, damaged, piecesOf, type Random, randomOf } from './random.ts';

/** What a server writes on one connection, until it ends it. */
export interface FuzzAnswer {
  readonly bytes: Buffer;
  readonly pieces: readonly Buffer[];
}

const STATUS_LINES = [
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200 OK',
  'HTTP/1.1 200',
  'HTTP/1.1 200 ',
  'HTTP/1.0 200 OK',
  'HTTP/1.1 429 Too Many Requests',
  'HTTP/1.1 204 No Content',
  'HTTP/1.1 304 Not Modified',
  'HTTP/1.1 529 \u00e9t\u00e9',
];
const ODD_STATUS_LINES = [
  'HTTP/1.1 101 Switching Protocols',
  'HTTP/1.1 100 Continue',
  'HTTP/2.0 200 OK',
  'HTTP/1.1  200 OK',
  'HTTP/1.1 20 OK',
  'HTTP/1.1 099 OK',
  'http/1.1 200 OK',
  'HTTP/1.1 200 O\u0001K',
];
const HEADERS = [
  'content-type: application/json',
  'Content-Type: text/event-stream',
  'x-request-id: req_1',
  'set-cookie: a=1',
  'set-cookie: b=2',
  'x-empty:',
  'x-spaces: \t a b \t',
  'x-latin: \u00e9\u00ff',
  '__proto__: x',
  'constructor: y',
  'connection: keep-alive',
  'connection: close',
  'Connection: Keep-Alive, x-hop',
  'keep-alive: timeout=5',
];
const ODD_HEADERS = [
  'content-length: 3',
  'content-length: +3',
  'content-length: 3, 3',
  'content-length: 0x3',
  'content-length:',
  'content-length: 99999999999999999999',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip, chunked',
  'transfer-encoding: chunked, identity',
  'transfer-encoding: identity',
  'Transfer-Encoding : chunked',
  ' folded: yes',
  'x-control: a\u0000b',
  'x-return: a\rb',
  'x-delete: \u007f',
  'no colon',
  ': no name',
  'n\u00e4me: x',
  'upgrade: websocket',
  'connection: upgrade',
];
const MAX_SIZE = 5_000;
const SIZES = [0, 1, 2, 17, 300, MAX_SIZE];
/** Each byte is as likely as any other; bodies are parts of it. */
const NOISE = noise(randomOf(1), 64 * 1024);

/** Mostly valid answers, by any framing, with what may follow them; some of them damaged. */
export function fuzzAnswer(random: Random): FuzzAnswer {
  let text = '';
  while (random.chance(0.05)) text += `HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n`;
  text += answer(random);
  if (random.chance(0.15)) text += random.pick(['\r\n', '\n', 'garbage', '\u0000', answer(random)]);
  if (random.chance(0.05)) text = text.replace('\r\n', random.pick(['\n', '\r', '\r\n\r\n']));
  let bytes: Buffer = Buffer.from(text, 'latin1');
  if (random.chance(0.25)) bytes = damaged(random, bytes);
  return { bytes, pieces: piecesOf(bytes, cutsOf(random, bytes.length)) };
}

function answer(random: Random): string {
  const lines = [random.chance(0.97) ? random.pick(STATUS_LINES) : random.pick(ODD_STATUS_LINES)];
  const header = () => (random.chance(0.96) ? random.pick(HEADERS) : random.pick(ODD_HEADERS));
  while (random.chance(0.7)) lines.push(header());
  const body = bodyOf(random);
  const framing = random.integer(10);
  let written = body;
  if (framing < 4) lines.push(`Content-Length: ${body.length}`);
  else if (framing < 8) {
    lines.push(`transfer-encoding: ${random.pick(['chunked', 'chunked', 'Chunked'])}`);
    written = chunked(random, body);
  } else if (framing === 8) lines.push(`content-length: ${Math.max(0, body.length + random.integer(3) - 1)}`);
  while (random.chance(0.3)) lines.push(header());
  // Now and then, a head that is about as long as is allowed.
  if (random.chance(0.01)) lines.push(`x-long: ${'x'.repeat(16_000 + random.integer(800))}`);
  return `${lines.join('\r\n')}\r\n\r\n${written}`;
}

function bodyOf(random: Random): string {
  const at = random.integer(NOISE.length - MAX_SIZE);
  return NOISE.slice(at, at + random.pick(SIZES));
}

function chunked(random: Random, body: string): string {
  let text = '';
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, 1 + random.integer(random.pick([3, 100, 6_000])));
    const hex = size.toString(16);
    const written = random.pick([hex, hex.toUpperCase(), hex.padStart(4, '0')]);
    text += `${written}${extension(random)}\r\n${body.slice(at, at + size)}\r\n`;
    at += size;
  }
  const trailers = random.chance(0.1)
    ? random.pick(['x-t: 1\r\n', 'x-t:\r\nx-u: 2\r\n', 'bad\r\n', 'x t: 1\r\n'])
    : '';
  return `${text}0${extension(random)}\r\n${trailers}\r\n`;
}

function extension(random: Random): string {
  if (random.chance(0.95)) return '';
  return random.pick([';a', ';a=b', ';a="b c"', ';a=b;c', ';', ';=', ' ', ';a="', ';a=b\u0001', ';a="\\""']);
}

function noise(random: Random, length: number): string {
  return Buffer.from(Array.from({ length }, () => random.integer(256))).toString('latin1');
}
