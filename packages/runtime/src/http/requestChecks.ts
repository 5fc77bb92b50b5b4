import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { AppError } from '@weighbridge/errors';

/** The client disconnected before its body had arrived: no one gets an answer. */
export function clientGone(): AppError {
  const message = 'The client disconnected before anything was sent.';
  return new AppError('client_gone', 'caller_left', message);
}

/** The 405 for a method that a path does not have. `allow`: those that it has. */
export function methodNotAllowed(method: string, allow: string): AppError {
  const message = `The method ${method} is not allowed for this path. Use ${allow}.`;
  return new AppError('method_not_allowed', 'method_not_allowed', message, { headers: { allow } });
}

/** Throws a 413 for a body whose announced length is above the limit. */
export function assertBodyFits(headers: IncomingHttpHeaders, limitBytes: number): void {
  if (Number(headers['content-length'] ?? 0) > limitBytes) throw bodyTooLarge(limitBytes);
}

export function bodyTooLarge(limitBytes: number): AppError {
  return new AppError(
    'too_large',
    'body_too_large',
    `The body is larger than ${limitBytes} bytes, the limit of this service.`,
  );
}

/** Throws a 415 for a body that is not JSON, or in a content coding other than `encodings`: those that its reader decodes. */
export function assertJsonBody(headers: IncomingHttpHeaders, encodings: readonly string[] = []): void {
  assertEncoding(headers['content-encoding'], encodings);
  const type = headers['content-type'];
  if (!isJsonType(type)) throw notJsonType(type ?? '');
}

/** Tells a client that waits with its body (`Expect: 100-continue`) to send it. HTTP/1.0 has no expectations. */
export function sendContinue(
  { headers, httpVersion }: Pick<IncomingMessage, 'headers' | 'httpVersion'>,
  response: Pick<ServerResponse, 'writeContinue'>,
): void {
  if (headers.expect !== undefined && httpVersion === '1.1') response.writeContinue();
}

/** Throws a 415 that says which content codings are taken (RFC 9110, section 12.5.3). */
function assertEncoding(encoding: string | undefined, encodings: readonly string[]): void {
  if (encoding === undefined) return;
  const name = encoding.toLowerCase().replace(/^x-(?=gzip$)/, '');
  if (name === 'identity' || encodings.includes(name)) return;
  const accepted = [...encodings, 'identity'].join(', ');
  const instead = encodings.length > 0 ? `as ${encodings.join(' or ')}, or ` : '';
  throw new AppError(
    'unsupported_media_type',
    'unsupported_media_type',
    `The body can't be decoded: send it ${instead}without the header "Content-Encoding" (it was "${encoding.slice(0, 100)}").`,
    { param: 'content-encoding', headers: { 'accept-encoding': accepted } },
  );
}

/** A missing or empty `Content-Type` counts as JSON. */
function isJsonType(type: string | undefined): boolean {
  // The usual spelling, for speed.
  if (type === undefined || type === 'application/json') return true;
  return isBlank(type) || /^\s*application\/(json|[\w.!#$&^-]+\+json)\s*(;|$)/i.test(type);
}

/** A header without a value. */
export function isBlank(value: string): boolean {
  return value.trim() === '';
}

/** A message that a user of `curl -d` understands. */
export function notJsonType(type: string): AppError {
  return new AppError(
    'unsupported_media_type',
    'unsupported_media_type',
    `The body must be JSON: send the header "Content-Type: application/json" (it was "${type.slice(0, 100)}").`,
    { param: 'content-type' },
  );
}
