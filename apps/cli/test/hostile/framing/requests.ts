import { METHODS } from 'node:http';
import type { Random } from '../../faults/random.ts';

/** A request before it becomes bytes. Each change may break any part of it. */
interface RawRequest {
  readonly marker: string;
  method: string;
  target: string;
  version: string;
  /** Lines without their ends. */
  headers: string[];
  body: string;
  lineEnd: string;
}

/** What one connection sends. */
export interface Conversation {
  readonly markers: readonly string[];
  /** Those that the ledger can know: a change may have taken the header with the label. */
  readonly labelled: readonly string[];
  readonly bytes: Buffer;
  /** Where the bytes are cut into writes. */
  readonly cuts: readonly number[];
  readonly leaves: 'end' | 'destroy';
}

const MAX_CHANGES = 3;
const MAX_PIPELINED = 4;

/** A conversation of its number alone, so that it can be repeated. `isFromPage`: with an Origin. */
export function conversation(random: Random, key: string, marker: string, isFromPage: boolean): Conversation {
  const count = random.chance(0.5) ? 1 : 1 + random.integer(MAX_PIPELINED);
  const requests = Array.from({ length: count }, (_, at) => request(random, key, `${marker}x${at}x`));
  for (const one of requests) {
    const changes = random.chance(0.35) ? 0 : 1 + random.integer(MAX_CHANGES);
    for (let at = 0; at < changes; at++) random.pick(CHANGES)(one, random);
    if (isFromPage) one.headers.push('Origin: https://page.example');
  }
  const garbage = random.chance(0.15) ? random.pick(GARBAGE) : '';
  const all = Buffer.from(requests.map(textOf).join('') + garbage, 'latin1');
  const bytes = random.chance(0.15) ? all.subarray(0, random.integer(all.length)) : all;
  return {
    markers: requests.map((one) => one.marker),
    labelled: requests
      .filter(({ headers, marker: own }) => headers.includes(`X-Svc-Labels: n=${own}`))
      .map((one) => one.marker),
    bytes,
    cuts: cutsOf(bytes.length, random),
    leaves: random.chance(0.85) ? 'end' : 'destroy',
  };
}

function request(random: Random, key: string, marker: string): RawRequest {
  const [method, target, body] = random.pick(KINDS)(marker, random);
  const headers = ['Host: x', `Authorization: Bearer ${key}`, `X-Svc-Labels: n=${marker}`];
  if (body === undefined)
    return { marker, method, target, version: 'HTTP/1.1', headers, body: '', lineEnd: '\r\n' };
  headers.push('Content-Type: application/json');
  const isChunked = random.chance(0.3);
  headers.push(isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`);
  const sent = isChunked ? inChunks(body, random) : body;
  return { marker, method, target, version: 'HTTP/1.1', headers, body: sent, lineEnd: '\r\n' };
}

type Kind = (marker: string, random: Random) => [method: string, target: string, body?: string];
const chat = (marker: string, fields: object = {}) =>
  JSON.stringify({ model: 'local/plain', messages: [{ role: 'user', content: marker }], ...fields });

const KINDS: Kind[] = [
  (marker) => ['POST', '/v1/chat/completions', chat(marker)],
  (marker) => ['POST', '/v1/chat/completions', chat(marker)],
  (marker) => ['POST', '/v1/chat/completions', chat(marker, { stream: true })],
  (marker) => ['POST', '/v1/chat/completions', chat(marker, { model: `local/no-${marker}` })],
  (marker) => ['GET', `/v1/nowhere-${marker}`],
  (marker) => ['POST', `/v1/nowhere-${marker}`, chat(marker)],
  () => ['GET', '/v1/models/local/plain'],
];

function inChunks(body: string, random: Random): string {
  let text = '';
  for (let at = 0; at < body.length; ) {
    const part = body.slice(at, at + 1 + random.integer(60));
    text += `${part.length.toString(16)}\r\n${part}\r\n`;
    at += part.length;
  }
  return `${text}0\r\n\r\n`;
}

function textOf({ method, target, version, headers, body, lineEnd }: RawRequest): string {
  return `${[`${method} ${target} ${version}`, ...headers].join(lineEnd)}${lineEnd}${lineEnd}${body}`;
}

/** Whole, in a few pieces, or byte by byte. */
function cutsOf(length: number, random: Random): number[] {
  const how = random.next();
  if (how < 0.5) return [];
  if (how < 0.9)
    return Array.from({ length: 1 + random.integer(4) }, () => random.integer(length + 1)).sort(
      (a, b) => a - b,
    );
  const from = random.integer(Math.max(1, length - 120));
  return Array.from({ length: Math.min(120, length) }, (_, at) => from + at).filter((at) => at < length);
}

const GARBAGE = [
  '\r\n',
  '\r\n\r\n',
  'nonsense\r\n\r\n',
  '\0',
  'GET',
  'GET / HTTP/1.1\r\nhos',
  '\x16\x03\x01\x02\0',
  '0\r\n\r\n',
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'HTTP/1.1 200 OK\r\n\r\n',
];
const METHOD_WORDS = [
  ...METHODS.filter((method) => method !== 'CONNECT'),
  'get',
  'NOPE',
  '',
  'GE T',
  'POST\t',
];
const TARGETS = [
  '*',
  '',
  '/',
  '//',
  '/v1/../v1/models',
  'http://x/v1/models',
  'x:80',
  '/v1/%',
  '/v1/models?\x01',
  `/${'a'.repeat(9_000)}`,
  '/v1/models#x',
  '\\v1',
];
const VERSIONS = ['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/11', 'http/1.1', '', 'HTTP/1.1 '];
const LENGTHS = [
  '0',
  '1',
  '-1',
  '+5',
  '0x10',
  '5, 5',
  '1e3',
  ' 7',
  '99999',
  '18446744073709551616',
  '',
  '5\r\nContent-Length: 6',
];
const CODINGS = [
  'chunked',
  'gzip, chunked',
  'chunked, chunked',
  'identity',
  'xchunked',
  'chunked\r\nTransfer-Encoding: chunked',
  ' chunked',
  'chunked;q=1',
  '',
];
const LINES = [
  '',
  ' folded: line',
  'no colon',
  'Space : before',
  ': nameless',
  'Nul: \0',
  'Bare: a\rb',
  'Bytes: \xff\xfe',
  'Host: y',
  'host: x',
  'Expect: 100-continue',
  'Expect: nonsense',
  'Connection: close',
  'Connection: keep-alive, upgrade',
  'Upgrade: h2c',
  'Upgrade: websocket',
  'Content-Encoding: gzip',
  'TE: trailers',
  'Trailer: x',
  'Authorization: Bearer other',
  `Long: ${'x'.repeat(20_000)}`,
  `X-Svc-User: ${'u'.repeat(5_000)}`,
  'Keep-Alive: 5',
  'Content-Type: text/plain',
];
const CHUNKS = [
  'zz\r\nabc\r\n',
  'fffffffffffffffff\r\n',
  '-1\r\n',
  '5;ext=1\r\nhello\r\n',
  '5\nhello\n',
  '3\r\nabcdef\r\n',
  '0\r\nTrailer: 1\r\n\r\n',
  '0\r\nHost: y\r\n\r\n',
  '00\r\n\r\n',
  `5;${'e'.repeat(20_000)}\r\nhello\r\n`,
  ' 5\r\nhello\r\n',
];

type Change = (request: RawRequest, random: Random) => void;

function replaceHeader(request: RawRequest, name: string, value: string): void {
  request.headers = request.headers.filter(
    (line) => !line.toLowerCase().startsWith(`${name.toLowerCase()}:`),
  );
  request.headers.push(`${name}: ${value}`);
}

const CHANGES: Change[] = [
  (request, random) => {
    request.method = random.pick(METHOD_WORDS);
  },
  (request, random) => {
    request.target = random.pick(TARGETS);
  },
  (request, random) => {
    request.version = random.pick(VERSIONS);
  },
  (request, random) => replaceHeader(request, 'Content-Length', random.pick(LENGTHS)),
  (request, random) => {
    request.headers.push(`Content-Length: ${random.pick(LENGTHS)}`);
  },
  (request, random) => replaceHeader(request, 'Transfer-Encoding', random.pick(CODINGS)),
  (request, random) => {
    request.headers.push(`Transfer-Encoding: ${random.pick(CODINGS)}`);
  },
  (request, random) => {
    request.headers.splice(random.integer(request.headers.length + 1), 0, random.pick(LINES));
  },
  (request, random) => {
    request.headers.splice(random.integer(request.headers.length + 1), 0, random.pick(LINES));
  },
  (request, random) => {
    request.headers.splice(random.integer(request.headers.length), 1);
  },
  (request, random) => {
    request.headers = random.shuffled(request.headers);
  },
  (request, random) => {
    const many = random.pick([40, 999, 1_001, 1_999, 2_100]);
    request.headers.unshift(...Array.from({ length: many }, () => 'a: b'));
  },
  (request, random) => {
    request.lineEnd = random.pick(['\n', '\r', '\r\n ', '\r\r\n']);
  },
  (request, random) => {
    request.body = random.pick(CHUNKS) + (random.chance(0.5) ? request.body : '');
  },
  (request, random) => {
    const at = random.integer(request.body.length + 1);
    request.body = request.body.slice(0, at) + random.pick(GARBAGE) + request.body.slice(at);
  },
];
