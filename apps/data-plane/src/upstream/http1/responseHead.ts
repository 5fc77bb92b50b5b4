import type { IncomingHttpHeaders } from 'node:http';
import { COLON, CR, IS_TOKEN, IS_VALUE, LF, SPACE, TAB } from './characters.ts';
import { badResponse } from './httpClientError.ts';

/** How the end of a body is found (RFC 9112, section 6.3). */
type Framing = 'none' | 'length' | 'chunked' | 'close';

export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly framing: Framing;
  /** With the framing `length`. */
  readonly length: number;
  /** The connection may be used again once the body is over. */
  readonly keepsAlive: boolean;
}

const LENGTH = /^\d{1,15}$/;

/** Headers have any names: objects of it inherit nothing. */
class Headers {
  [name: string]: string | string[] | undefined;
}
Object.setPrototypeOf(Headers.prototype, null);
// @ts-expect-error: it would be a header that every answer has.
delete Headers.prototype.constructor;

/** Lower-case names by how vendors write them. */
const NAMES = new Map<string, string>();
for (const name of [
  'access-control-allow-origin',
  'access-control-expose-headers',
  'alt-svc',
  'anthropic-organization-id',
  'cache-control',
  'cf-cache-status',
  'cf-ray',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'openai-organization',
  'openai-processing-ms',
  'openai-project',
  'openai-version',
  'request-id',
  'retry-after',
  'server',
  'set-cookie',
  'strict-transport-security',
  'transfer-encoding',
  'vary',
  'via',
  'x-content-type-options',
  'x-ratelimit-limit-requests',
  'x-ratelimit-limit-tokens',
  'x-ratelimit-remaining-requests',
  'x-ratelimit-remaining-tokens',
  'x-ratelimit-reset-requests',
  'x-ratelimit-reset-tokens',
  'x-request-id',
]) {
  NAMES.set(name, name);
  NAMES.set(
    name.replaceAll(/(^|-)[a-z]/g, (letter) => letter.toUpperCase()),
    name,
  );
}

/** A line that is valid, with its end. */
interface HeaderLine {
  readonly text: string;
  readonly name: string;
  readonly value: string;
}

/** The lines of the last answer, by their place: the next one has most of them there too. */
const latest: HeaderLine[] = [];
const MAX_KNOWN_LINES = 64;
const MAX_KNOWN_LENGTH = 256;

/**
 * Reads a head: bytes as latin1, each line with its end. Throws for what is not strict HTTP/1.1: where two readers could see
 * two ends of a message, the next request on the connection could get the answer to another.
 */
export function parseResponseHead(text: string): ResponseHead {
  const minor = text.charCodeAt(7) - 0x30;
  if (!text.startsWith('HTTP/1.') || (minor !== 0 && minor !== 1) || text.charCodeAt(8) !== SPACE) {
    throw badResponse('its status line has no version 1.0 or 1.1');
  }
  const status = statusAt(text, 9);
  let at = endOfReason(text, 12);
  const headers = new Headers();
  for (let place = 0; at < text.length; place++) {
    const line = readLine(text, at, latest[place]);
    if (place < MAX_KNOWN_LINES && line.text.length <= MAX_KNOWN_LENGTH) latest[place] = line;
    add(headers, line);
    at += line.text.length;
  }
  return framed(status, headers, minor === 1);
}

function statusAt(text: string, at: number): number {
  let status = 0;
  for (let digit = at; digit < at + 3; digit++) {
    const value = text.charCodeAt(digit) - 0x30;
    if (!(value >= 0 && value <= 9)) throw badResponse('its status is not valid');
    status = status * 10 + value;
  }
  if (status < 100) throw badResponse('its status is not valid');
  return status;
}

/** The reason is not used, and may be left out with the space before it. */
function endOfReason(text: string, at: number): number {
  const first = text.charCodeAt(at);
  if (first !== SPACE && first !== CR) throw badResponse('its status is not valid');
  return endOfLine(text, at, 'its status line');
}

/** The place after the line end that follows. */
function endOfLine(text: string, from: number, what: string): number {
  let at = from;
  while (IS_VALUE[text.charCodeAt(at)] === 1) at++;
  if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF) {
    throw badResponse(`${what} has a character that is not allowed`);
  }
  return at + 2;
}

/** Reads the line of a header; folded lines, and spaces before the colon, are no tokens. */
function readLine(text: string, from: number, known: HeaderLine | undefined): HeaderLine {
  if (known && text.startsWith(known.text, from)) return known;
  let colon = from;
  while (IS_TOKEN[text.charCodeAt(colon)] === 1) colon++;
  if (colon === from || text.charCodeAt(colon) !== COLON)
    throw badResponse('the name of a header is not valid');
  const next = endOfLine(text, colon + 1, 'a header');
  let start = colon + 1;
  let end = next - 2;
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  const written = text.slice(from, colon);
  const name = NAMES.get(written) ?? written.toLowerCase();
  return { text: text.slice(from, next), name, value: text.slice(start, end) };
}

function add(headers: Headers, { name, value }: HeaderLine): void {
  const earlier = headers[name];
  if (earlier === undefined) headers[name] = value;
  else if (typeof earlier === 'string') headers[name] = [earlier, value];
  else earlier.push(value);
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB;
}

/** RFC 9112, section 6.3, without what it lets a reader guess. */
function framed(status: number, headers: Headers, isCurrent: boolean): ResponseHead {
  const { 'transfer-encoding': coding, 'content-length': declared, connection } = headers;
  const keepsAlive =
    isCurrent && (connection === undefined || connection === 'keep-alive' || !closes(connection));
  if (coding !== undefined) {
    if (declared !== undefined) throw badResponse('it has a length, and a transfer encoding');
    if (!isCurrent) throw badResponse('HTTP/1.0 has no transfer encodings');
    if (typeof coding !== 'string' || coding.toLowerCase() !== 'chunked') {
      throw badResponse('its transfer encoding is not "chunked"');
    }
  }
  const length = declared === undefined ? 0 : lengthOf(declared);
  if (status < 200 || status === 204 || status === 304) {
    // With 304, a length may be that of another answer; but no request of this client asks for it.
    if (coding !== undefined || length > 0) throw badResponse(`it has a body with the status ${status}`);
    return { status, headers, framing: 'none', length: 0, keepsAlive };
  }
  if (coding !== undefined) return { status, headers, framing: 'chunked', length: 0, keepsAlive };
  if (declared !== undefined) return { status, headers, framing: 'length', length, keepsAlive };
  return { status, headers, framing: 'close', length: 0, keepsAlive: false };
}

function lengthOf(declared: string | string[]): number {
  if (typeof declared !== 'string' || !LENGTH.test(declared)) throw badResponse('its length is not valid');
  return Number(declared);
}

function closes(connection: string | string[]): boolean {
  return String(connection)
    .toLowerCase()
    .split(',')
    .some((option) => option.trim() === 'close');
}
