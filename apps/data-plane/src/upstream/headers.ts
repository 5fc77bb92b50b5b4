import type { IncomingHttpHeaders } from 'node:http';
import { isRateHeader } from '@weighbridge/budget';
import type { Connector } from '@weighbridge/contracts';
import { HeaderNames, HOP_BY_HOP } from '@weighbridge/domain';
import type { TraceHeaders } from '@weighbridge/runtime';
import { decodableEncodings } from '../formats/contentEncoding.ts';
import type { Dialect } from '../formats/operation.ts';

/** Headers of the client that every vendor gets. */
const COMMON = [
  'accept',
  'accept-language',
  'baggage',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-client-request-id',
  'x-stainless-*',
];

/**
 * The headers of the client that a vendor gets: what the vendors' SDKs (`x-stainless-*` and the dialect's own) and coding
 * agents send to it. Anything else goes out only if the connector's `forward_headers` say so: a proxy before this service
 * may add headers that say who the user is. An idempotency key is not among them, since all tenants of a connector share one
 * account: a tenant could repeat another's key.
 */
const FORWARDED_BY_DIALECT: Readonly<Record<Dialect, readonly string[]>> = {
  openai: [
    ...COMMON,
    'openai-beta',
    // Codex.
    'conversation_id',
    'originator',
    'session-id',
    'session_id',
    'thread-id',
    'thread_id',
    'version',
    'x-codex-*',
    'x-openai-subagent',
    'x-responsesapi-include-timing-metrics',
  ],
  anthropic: [
    ...COMMON,
    'anthropic-beta',
    'anthropic-client-platform',
    'anthropic-client-version',
    'anthropic-dangerous-direct-browser-access',
    'anthropic-version',
    // Claude Code.
    'x-anthropic-additional-protection',
    'x-app',
    'x-claude-*',
    'x-client-app',
  ],
  gemini: [...COMMON, 'x-goog-api-client', 'x-server-timeout'],
};
const FORWARDED: Readonly<Record<Dialect, HeaderNames>> = {
  openai: new HeaderNames(FORWARDED_BY_DIALECT.openai),
  anthropic: new HeaderNames(FORWARDED_BY_DIALECT.anthropic),
  gemini: new HeaderNames(FORWARDED_BY_DIALECT.gemini),
};
/** Of connectors with `forward_headers`: with these. */
const forwardedTo: Readonly<Record<Dialect, WeakMap<Connector, HeaderNames>>> = {
  openai: new WeakMap(),
  anthropic: new WeakMap(),
  gemini: new WeakMap(),
};

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

/** The headers for the vendor: names and values, alternating, which is the cheapest form. */
export function upstreamHeaders(
  headers: IncomingHttpHeaders,
  { dialect, connector, plain, hasBody, trace }: UpstreamHeaderOptions,
): string[] {
  const forwarded = hasBody ? ['content-type', 'application/json'] : [];
  const encodings = plain ? 'identity' : decodableEncodings(headers['accept-encoding']);
  forwarded.push('accept-encoding', encodings);
  const hopByHop = connectionOptions(headers.connection);
  const names = forwardedNames(dialect, connector);
  for (const name in headers) {
    if (!names.has(name) || hopByHop.has(name)) continue;
    if (trace && TRACE_HEADERS.has(name)) continue;
    add(forwarded, name, headers[name]);
  }
  if (trace) forwarded.push('traceparent', trace.traceparent);
  if (trace?.tracestate) forwarded.push('tracestate', trace.tracestate);
  const { credential } = connector;
  if (dialect === 'anthropic') {
    if (headers['anthropic-version'] === undefined) forwarded.push('anthropic-version', MESSAGES_VERSION);
    if (credential) forwarded.push('x-api-key', credential);
  } else if (dialect === 'gemini') {
    if (credential) forwarded.push('x-goog-api-key', credential);
  } else if (credential) forwarded.push('authorization', `Bearer ${credential}`);
  return forwarded;
}

/** The client's headers that any of the connectors gets. */
export function forwardableHeaders(
  headers: IncomingHttpHeaders,
  dialect: Dialect,
  connectors: readonly Connector[],
): Record<string, string | string[]> {
  const forwardable: Record<string, string | string[]> = {};
  const hopByHop = connectionOptions(headers.connection);
  const names = [...new Set(connectors.map((connector) => forwardedNames(dialect, connector)))];
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || hopByHop.has(name)) continue;
    if (names.some((one) => one.has(name))) forwardable[name] = value;
  }
  return forwardable;
}

function forwardedNames(dialect: Dialect, connector: Connector): HeaderNames {
  if (connector.forwardHeaders.length === 0) return FORWARDED[dialect];
  const known = forwardedTo[dialect].get(connector);
  if (known) return known;
  const names = new HeaderNames([...FORWARDED_BY_DIALECT[dialect], ...connector.forwardHeaders]);
  forwardedTo[dialect].set(connector, names);
  return names;
}

/**
 * Appends the vendor's headers that the client gets, names and values alternating. A client with its own rate limits
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

/** What an error of a vendor with another dialect still says to the client's SDK. */
const RETRY_HEADERS = ['retry-after', 'retry-after-ms', 'x-should-retry'];

/** Appends those of a vendor's headers that mean the same in each dialect. */
export function appendCommonHeaders(list: string[], headers: IncomingHttpHeaders): void {
  for (const name of RETRY_HEADERS) add(list, name, headers[name]);
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
