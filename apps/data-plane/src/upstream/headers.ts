import type { IncomingHttpHeaders } from 'node:http';
import type { Connector } from '@weighbridge/contracts';
import type { TraceHeaders } from '@weighbridge/runtime';
import { decodableEncodings } from '../formats/contentEncoding.ts';
import type { Dialect } from '../formats/operation.ts';
import { isRateHeader } from '../rates/rateHeaders.ts';

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

const TRACE_HEADERS = new Set(['traceparent', 'tracestate']);

/** The version of the messages API that its reference describes; a caller's own goes first. */
const MESSAGES_VERSION = '2023-06-01';

export interface UpstreamHeaderOptions {
  readonly dialect: Dialect;
  readonly connector: Connector;
  /** The answer has to be changed on its way, so it must come as it is. */
  readonly plain: boolean;
  readonly hasBody: boolean;
  /** In the place of the caller's. */
  readonly trace?: TraceHeaders | undefined;
}

/** Names and values, one after the other: what undici takes with the least work. */
export function upstreamHeaders(
  headers: IncomingHttpHeaders,
  { dialect, connector, plain, hasBody, trace }: UpstreamHeaderOptions,
): string[] {
  const type = hasBody ? (headers['content-type'] ?? 'application/json') : undefined;
  const forwarded = type === undefined ? [] : ['content-type', type];
  const encodings = plain ? 'identity' : decodableEncodings(headers['accept-encoding']);
  forwarded.push('accept-encoding', encodings);
  const named = connectionOptions(headers.connection);
  for (const name in headers) {
    if (trace && TRACE_HEADERS.has(name)) continue;
    if (name !== 'content-type' && isForwarded(name, named)) add(forwarded, name, headers[name]);
  }
  if (trace) forwarded.push('traceparent', trace.traceparent);
  if (trace?.tracestate) forwarded.push('tracestate', trace.tracestate);
  const { credential } = connector;
  if (dialect === 'anthropic') {
    if (headers['anthropic-version'] === undefined) forwarded.push('anthropic-version', MESSAGES_VERSION);
    if (credential) forwarded.push('x-api-key', credential);
  } else if (credential) forwarded.push('authorization', `Bearer ${credential}`);
  return forwarded;
}

/** What of a caller's headers a vendor gets to see. */
export function forwardableHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const passed: Record<string, string | string[]> = {};
  const named = connectionOptions(headers.connection);
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && isForwarded(name, named)) passed[name] = value;
  }
  return passed;
}

function isForwarded(name: string, named: ReadonlySet<string>): boolean {
  if (NOT_FORWARDED.has(name) || named.has(name)) return false;
  return !name.startsWith('x-svc-') && !name.startsWith('x-forwarded-');
}

/**
 * Adds what of a vendor's headers its answer keeps, names and values one after the other. One whose key has limits here is
 * not told those of the vendor's account.
 */
export function appendVendorHeaders(
  list: string[],
  headers: IncomingHttpHeaders,
  { isRated }: { readonly isRated: boolean },
): void {
  const named = connectionOptions(headers.connection);
  for (const name in headers) {
    if (NOT_RETURNED.has(name) || named.has(name)) continue;
    // Which pages may read an answer, this service decides.
    if (name.startsWith('x-svc-') || name.startsWith('access-control-')) continue;
    if (isRated && isRateHeader(name)) continue;
    add(list, name, headers[name]);
  }
}

/** Each value of a header that is there several times. */
function add(list: string[], name: string, value: string | string[] | undefined): void {
  if (typeof value === 'string') list.push(name, value);
  else for (const one of value ?? []) list.push(name, one);
}

const NO_OPTIONS: ReadonlySet<string> = new Set();

/** A sender may name further headers that are for this connection only. */
function connectionOptions(connection: string | string[] | undefined): ReadonlySet<string> {
  // What nearly all of them send names none.
  if (!connection || connection === 'keep-alive' || connection === 'close') return NO_OPTIONS;
  const options = String(connection).split(',');
  return new Set(options.map((option) => option.trim().toLowerCase()));
}
