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

/** Headers of the client that a vendor must not see; undici writes the last three itself. */
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

/** Headers of a vendor about its account or its server, which a client must not see; the length is written again. */
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

/** Sent if the client sends no version: the current version of the Messages API. */
const MESSAGES_VERSION = '2023-06-01';

export interface UpstreamHeaderOptions {
  readonly dialect: Dialect;
  readonly connector: Connector;
  /** Ask for a response without content encoding: it has to be changed on its way. */
  readonly plain: boolean;
  readonly hasBody: boolean;
  /** Replaces the client's trace headers. */
  readonly trace?: TraceHeaders | undefined;
}

/** The headers for the vendor: names and values, alternating, which is the cheapest form for undici. */
export function upstreamHeaders(
  headers: IncomingHttpHeaders,
  { dialect, connector, plain, hasBody, trace }: UpstreamHeaderOptions,
): string[] {
  const type = hasBody ? (headers['content-type'] ?? 'application/json') : undefined;
  const forwarded = type === undefined ? [] : ['content-type', type];
  const encodings = plain ? 'identity' : decodableEncodings(headers['accept-encoding']);
  forwarded.push('accept-encoding', encodings);
  const hopByHop = connectionOptions(headers.connection);
  for (const name in headers) {
    if (trace && TRACE_HEADERS.has(name)) continue;
    if (name !== 'content-type' && isForwarded(name, hopByHop)) add(forwarded, name, headers[name]);
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

/** The client's headers that a vendor gets. */
export function forwardableHeaders(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const forwardable: Record<string, string | string[]> = {};
  const hopByHop = connectionOptions(headers.connection);
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && isForwarded(name, hopByHop)) forwardable[name] = value;
  }
  return forwardable;
}

function isForwarded(name: string, hopByHop: ReadonlySet<string>): boolean {
  if (NOT_FORWARDED.has(name) || hopByHop.has(name)) return false;
  return !name.startsWith('x-svc-') && !name.startsWith('x-forwarded-');
}

/**
 * Appends the vendor's headers that the client gets, names and values alternating. A client with rate limits of its own
 * (`isRated`) does not get those of the vendor's account.
 */
export function appendVendorHeaders(
  list: string[],
  headers: IncomingHttpHeaders,
  { isRated }: { readonly isRated: boolean },
): void {
  const hopByHop = connectionOptions(headers.connection);
  for (const name in headers) {
    if (NOT_RETURNED.has(name) || hopByHop.has(name)) continue;
    // This service sets its own CORS headers.
    if (name.startsWith('x-svc-') || name.startsWith('access-control-')) continue;
    if (isRated && isRateHeader(name)) continue;
    add(list, name, headers[name]);
  }
}

/** A header with several values is added once per value. */
function add(list: string[], name: string, value: string | string[] | undefined): void {
  if (typeof value === 'string') list.push(name, value);
  else for (const one of value ?? []) list.push(name, one);
}

const NO_OPTIONS: ReadonlySet<string> = new Set();

/** The hop-by-hop headers that the `connection` header names. */
function connectionOptions(connection: string | string[] | undefined): ReadonlySet<string> {
  // The common values name none.
  if (!connection || connection === 'keep-alive' || connection === 'close') return NO_OPTIONS;
  const options = String(connection).split(',');
  return new Set(options.map((option) => option.trim().toLowerCase()));
}
