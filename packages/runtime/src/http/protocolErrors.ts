import type { IncomingMessage } from 'node:http';
import { AppError, type ErrorKind } from '@weighbridge/errors';

/**
 * Of the request line and all headers. Attribution headers are cut, whatever their length, so the limit is far above what
 * they need.
 */
export const MAX_HEADER_BYTES = 128 * 1024;
/** Lines of headers. Node would drop further ones in silence, a credential among them. */
export const MAX_HEADER_LINES = 2_000;

const CONTINUE = /^\s*100-continue\s*$/i;
const CHUNKED = /^\s*chunked\s*$/i;

/**
 * Why a request is refused by its head alone, whatever its route: its framing, or its meaning, is not what another server
 * would read in it.
 */
export function protocolRefusal(request: IncomingMessage): AppError | undefined {
  const { rawHeaders, headers } = request;
  if (rawHeaders.length > 2 * MAX_HEADER_LINES) return tooManyHeaders();
  const hosts = countHosts(rawHeaders);
  const isHttp11 = request.httpVersion === '1.1';
  if (!isHttp11 && request.httpVersion !== '1.0') return version(request.httpVersion);
  if (hosts > 1 || (hosts === 0 && isHttp11)) return hostLines(hosts);
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && !CHUNKED.test(coding)) return transferCoding(coding);
  // HTTP/1.0 has no expectations.
  if (headers.expect !== undefined && isHttp11 && !CONTINUE.test(headers.expect)) return expectation();
  return undefined;
}

function countHosts(rawHeaders: readonly string[]): number {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
  }
  return hosts;
}

function version(given: string): AppError {
  const message = `HTTP/${given} is not supported here. Use HTTP/1.1.`;
  return new AppError('version_not_supported', 'http_version_not_supported', message);
}

function tooManyHeaders(): AppError {
  const message = `The request has more than ${MAX_HEADER_LINES} header lines. Send fewer.`;
  return new AppError('headers_too_large', 'headers_too_large', message);
}

function hostLines(count: number): AppError {
  const message = `The request has ${count === 0 ? 'no header' : `${count} headers`} "Host". Send exactly one.`;
  return new AppError('invalid_request', 'malformed_request', message, { param: 'host' });
}

function transferCoding(coding: string): AppError {
  const shown = coding.slice(0, 100);
  const message = `The transfer coding "${shown}" is not supported. Send the body with "Content-Length", or with "Transfer-Encoding: chunked".`;
  return new AppError('not_implemented', 'transfer_coding_not_supported', message, {
    param: 'transfer-encoding',
  });
}

function expectation(): AppError {
  const message = 'The header "Expect" can only be "100-continue". Leave it out.';
  return new AppError('expectation_failed', 'expectation_failed', message, { param: 'expect' });
}

/** The error for what Node's parser, or its clock, found. */
export function parserError({ code = '' }: NodeJS.ErrnoException): AppError {
  const [kind, name, message] = PARSER_ERRORS[code] ?? MALFORMED;
  return new AppError(kind, name, message);
}

/** Whether an error tells of what the client sent, and not of its connection. */
export function isParserError({ code = '' }: NodeJS.ErrnoException): boolean {
  return code.startsWith('HPE_') || code.startsWith('ERR_HTTP_');
}

export const BODY_TIMEOUT: NodeJS.ErrnoException = Object.assign(new Error('slow body'), {
  code: 'ERR_HTTP_REQUEST_TIMEOUT',
});

const MALFORMED: [ErrorKind, string, string] = [
  'invalid_request',
  'malformed_request',
  'The request is not valid HTTP/1.1.',
];
const PARSER_ERRORS: Record<string, [ErrorKind, string, string]> = {
  HPE_HEADER_OVERFLOW: [
    'headers_too_large',
    'headers_too_large',
    `The request's headers are larger than ${MAX_HEADER_BYTES} bytes in total.`,
  ],
  ERR_HTTP_REQUEST_TIMEOUT: [
    'request_timeout',
    'request_timeout',
    'The upload timed out (below 8 KiB/s). Retry on a faster connection.',
  ],
};
