import { type OutgoingMessage, ServerResponse, STATUS_CODES } from 'node:http';
import type { HeaderList } from './responseHeaders.ts';

/** What Node's `writeHead` itself calls, after its checks, and sets; it has had this form since Node 0.10, but no types. */
interface StoresHeader {
  /** `head` is the status line, here with further lines; from `headers`, Node learns how the body is framed. */
  _storeHeader(head: string, headers: HeaderList): void;
  /** The head, which goes out with the first piece of the body, or with the end. */
  _header: unknown;
  readonly _headerSent: boolean;
  readonly _hasBody: boolean;
}

/** Node reads these to frame the message, or writes them itself. */
const READ_BY_NODE = new Set([
  'connection',
  'content-disposition',
  'content-length',
  'date',
  'expect',
  'keep-alive',
  'trailer',
  'transfer-encoding',
]);

/** As Node checks them (RFC 9110, sections 5.1 and 5.5). */
const TOKEN = /^[\^_`a-zA-Z\-0-9!#$%&'*+.|~]+$/;
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/;

/** A header's last line: most responses repeat it. */
interface KnownHeader {
  readonly name: string;
  readonly isReadByNode: boolean;
  value: string;
  line: string;
}

const known = new Map<string, KnownHeader>();
/** Those of the last response, by their place: the next has most of them there too. */
const latest: KnownHeader[] = [];
/** Vendors may name headers as they like. */
const MAX_KNOWN = 500;
const MAX_KNOWN_LENGTH = 512;

/**
 * Writes the head of a response as one string. `writeHead` checks and copies each header, and looks at each name for what it
 * means: of twenty headers, that was a tenth of a request's time in this process. What is unusual still goes that way.
 */
export function writeHead(response: ServerResponse, status: number, list: HeaderList): void {
  const framing: string[] = [];
  const lines = isUsual(response, status) ? linesOf(list, framing) : undefined;
  if (lines === undefined) {
    response.writeHead(status, list);
    return;
  }
  const reason = STATUS_CODES[status] ?? 'unknown';
  response.statusCode = status;
  response.statusMessage = reason;
  storesHeader(response)._storeHeader(`HTTP/1.1 ${status} ${reason}\r\n${lines}`, framing);
}

/** Up to this size, turning a body into a string takes less time than a second buffer in the write. */
const MAX_TEXT_BYTES = 4 * 1024;

/** Writes a whole response, whose list has its `content-length`. */
export function writeMessage(response: ServerResponse, status: number, list: HeaderList, body: Buffer): void {
  writeHead(response, status, list);
  if (body.length > MAX_TEXT_BYTES) {
    response.end(body);
    return;
  }
  const text = body.toString('latin1');
  const stored = storesHeader(response);
  const isJoinable =
    typeof stored._header === 'string' && !stored._headerSent && stored._hasBody && !response.chunkedEncoding;
  if (isJoinable) {
    // Otherwise Node writes the body and the end separately, which costs more than one write.
    stored._header += text;
    response.end();
  } else response.end(text, 'latin1');
}

/** The lines of all headers but those that Node reads, which are added to `framing`; undefined if one is malformed. */
function linesOf(list: HeaderList, framing: string[]): string | undefined {
  let lines = '';
  for (let at = 0; at < list.length; at += 2) {
    const name = list[at] as string;
    const value = list[at + 1] as string;
    const header = knownAt(at >> 1, name) ?? learn(name);
    if (!header) return undefined;
    if (header.isReadByNode) framing.push(name, value);
    else if (header.value === value) lines += header.line;
    else {
      if (NOT_IN_VALUES.test(value)) return undefined;
      const line = `${name}: ${value}\r\n`;
      lines += line;
      if (line.length > MAX_KNOWN_LENGTH) continue;
      header.value = value;
      header.line = line;
    }
  }
  return lines;
}

function knownAt(place: number, name: string): KnownHeader | undefined {
  const last = latest[place];
  if (last?.name === name) return last;
  const header = known.get(name);
  if (header) latest[place] = header;
  return header;
}

function learn(name: string): KnownHeader | undefined {
  if (!TOKEN.test(name)) return undefined;
  const isReadByNode = READ_BY_NODE.has(name.toLowerCase());
  const header = { name, isReadByNode, value: '', line: `${name}: \r\n` };
  if (known.size < MAX_KNOWN && name.length <= MAX_KNOWN_LENGTH) known.set(name, header);
  return header;
}

/** It may have a body, nothing was set on it before, and no one follows its head (runtime's `closeIfUnread` does). */
function isUsual(response: ServerResponse, status: number): boolean {
  return (
    status >= 200 &&
    status < 600 &&
    status !== 204 &&
    status !== 304 &&
    !response.headersSent &&
    response.writeHead === ServerResponse.prototype.writeHead &&
    response.req.headers.expect === undefined &&
    response.getHeaderNames().length === 0 &&
    typeof storesHeader(response)._storeHeader === 'function'
  );
}

function storesHeader(response: OutgoingMessage): StoresHeader {
  return response as unknown as StoresHeader;
}
