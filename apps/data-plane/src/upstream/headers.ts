import type { IncomingHttpHeaders } from 'node:http';
import type { Connector } from '@weighbridge/contracts';
import type { Wire } from '../operations/operation.ts';
import { isRateHeader } from '../rates/rateHeaders.ts';
import { passableEncodings } from './contentEncoding.ts';

/** Per connection, not per message (RFC 9110, section 7.6.1). */
const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];

/** What a caller sends to this service and a vendor must not see; what undici writes itself comes last. */
const NOT_FORWARDED = new Set([
  ...HOP_BY_HOP,
  'authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
  'openai-organization',
  'openai-project',
  'forwarded',
  'x-real-ip',
  'accept-encoding',
  'expect',
  'host',
  'content-length',
]);

/** What a vendor answers to the account that asked, and a caller must not see; lengths are written anew. */
const NOT_RETURNED = new Set([
  ...HOP_BY_HOP,
  'alt-svc',
  'anthropic-organization-id',
  'content-length',
  'date',
  'openai-organization',
  'openai-project',
  'request-id',
  'server',
  'set-cookie',
  'strict-transport-security',
  'x-request-id',
]);

/** The version of the messages API that its reference describes; a caller's own goes first. */
const MESSAGES_VERSION = '2023-06-01';

export interface ForwardedHeaders {
  readonly wire: Wire;
  readonly connector: Connector;
  /** The answer has to be changed on its way, so it must come as it is. */
  readonly plain: boolean;
  readonly hasBody: boolean;
}

export function upstreamHeaders(
  headers: IncomingHttpHeaders,
  { wire, connector, plain, hasBody }: ForwardedHeaders,
): Record<string, string | string[]> {
  const forwarded = passedHeaders(headers);
  if (hasBody) forwarded['content-type'] ??= 'application/json';
  else delete forwarded['content-type'];
  forwarded['accept-encoding'] = plain ? 'identity' : passableEncodings(headers['accept-encoding']);
  if (wire === 'anthropic') {
    forwarded['anthropic-version'] ??= MESSAGES_VERSION;
    if (connector.credential) forwarded['x-api-key'] = connector.credential;
  } else if (connector.credential) forwarded.authorization = `Bearer ${connector.credential}`;
  return forwarded;
}

/** What of a caller's headers a vendor gets to see. */
export function passedHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const passed: Record<string, string | string[]> = {};
  const named = connectionOptions(headers.connection);
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_FORWARDED.has(name) || named.has(name)) continue;
    if (name.startsWith('x-svc-') || name.startsWith('x-forwarded-')) continue;
    passed[name] = value;
  }
  return passed;
}

/** What of a vendor's headers its answer keeps. One whose key has limits here is not told those of the vendor's account. */
export function callerHeaders(
  headers: IncomingHttpHeaders,
  { isRated }: { readonly isRated: boolean },
): Record<string, string | string[]> {
  const returned: Record<string, string | string[]> = {};
  const named = connectionOptions(String(headers.connection ?? ''));
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || NOT_RETURNED.has(name) || named.has(name)) continue;
    // Which pages may read an answer, this service decides.
    if (name.startsWith('x-svc-') || name.startsWith('access-control-')) continue;
    if (isRated && isRateHeader(name)) continue;
    returned[name] = value;
  }
  return returned;
}

const NO_OPTIONS: ReadonlySet<string> = new Set();

/** A sender may name further headers that are for this connection only. */
function connectionOptions(connection: string | undefined): ReadonlySet<string> {
  // What nearly all of them send names none.
  if (!connection || connection === 'keep-alive') return NO_OPTIONS;
  return new Set((connection ?? '').split(',').map((option) => option.trim().toLowerCase()));
}
