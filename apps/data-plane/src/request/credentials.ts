import type { IncomingHttpHeaders } from 'node:http';
import { bearerToken } from '@weighbridge/domain';
import type { Dialect } from '../formats/operation.ts';

/** Where the clients of a dialect send the token, besides `Authorization`. Azure's have their own header. */
const HEADER: Readonly<Record<Dialect, string>> = {
  openai: 'api-key',
  anthropic: 'x-api-key',
  gemini: 'x-goog-api-key',
};

/**
 * The token of a request. If there are several, `Authorization` wins, then the header of the dialect; only Gemini's clients
 * may send it in the query, as `?key=`.
 */
export function tokenOf(headers: IncomingHttpHeaders, dialect: Dialect, query: string): string | undefined {
  if (headers.authorization !== undefined) return bearerToken(headers.authorization);
  const own = headers[HEADER[dialect]];
  if (own !== undefined) return String(own) || undefined;
  if (dialect !== 'gemini' || query === '') return undefined;
  return new URLSearchParams(query).get('key') || undefined;
}

/** Names of parameters, in lower case, in which some API takes a credential. */
const CREDENTIALS: ReadonlySet<string> = new Set([
  'key',
  'api-key',
  'api_key',
  'access_token',
  'oauth_token',
]);

/** A query string without credentials: none of a client's goes to a vendor, where it would replace the connector's. */
export function withoutCredentials(query: string): string {
  if (query === '') return query;
  const kept = query
    .slice(1)
    .split('&')
    .filter((parameter) => !CREDENTIALS.has(nameOf(parameter)));
  return kept.length === 0 ? '' : `?${kept.join('&')}`;
}

function nameOf(parameter: string): string {
  const [name = ''] = new URLSearchParams(parameter).keys();
  return name.trim().toLowerCase();
}
