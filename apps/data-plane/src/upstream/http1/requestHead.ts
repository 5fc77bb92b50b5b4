import { TOKEN } from './characters.ts';
import type { HttpRequest } from './httpCall.ts';
import { HttpClientError } from './httpClientError.ts';

/** Anything else would end the line, or is no single byte. */
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/;
const NOT_IN_PATHS = /[^\x21-\x7e\x80-\xff]/;
/** They say where a message ends, or are about the connection: the client alone writes them. */
const WRITTEN_HERE: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Names that were checked before. */
const known = new Set<string>();
const MAX_KNOWN = 1_000;

/**
 * The head of a request up to its last line end, for `latin1`. Throws for anything that a server could read as another
 * request, or as another body, than the one that is meant.
 */
export function requestHead({ method, path, headers, body }: HttpRequest, host: string): string {
  if (path[0] !== '/' || NOT_IN_PATHS.test(path)) throw badRequest('its path is not valid');
  let head = `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nconnection: keep-alive\r\n`;
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] as string;
    const value = headers[at + 1];
    if (!known.has(name)) assertName(name);
    if (value === undefined || NOT_IN_VALUES.test(value)) throw badRequest(`its header ${name} is not valid`);
    head += `${name}: ${value}\r\n`;
  }
  if (body && body.length > 0) return `${head}content-length: ${body.length}\r\n\r\n`;
  return method === 'POST' ? `${head}content-length: 0\r\n\r\n` : `${head}\r\n`;
}

function assertName(name: string): void {
  if (!TOKEN.test(name)) throw badRequest('the name of a header is not valid');
  if (WRITTEN_HERE.has(name.toLowerCase())) throw badRequest(`its header ${name} is written by the client`);
  // A client may make up any names (x-stainless-*).
  if (known.size < MAX_KNOWN) known.add(name);
}

function badRequest(what: string): HttpClientError {
  return new HttpClientError('bad_request', `the request can't be sent: ${what}`);
}
