import type { IncomingMessage } from 'node:http';
import type { HeaderList } from '../attempt/responseHeaders.ts';

const PREFLIGHT_MAX_AGE_S = '7200';
/** What a page's script may read besides the body. */
const EXPOSED = [
  'request-id',
  'retry-after',
  'x-request-id',
  'x-should-retry',
  'x-svc-attempts',
  'x-svc-cache',
  'x-svc-cost-micro-usd',
  'x-svc-dropped',
  'x-svc-skipped',
  'x-svc-estimated',
  'x-svc-model',
  'x-svc-overhead-ms',
].join(', ');

/**
 * The headers that let pages of these origins call the service from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol);
 * `*` stands for all. Without any, nothing is said, and browsers refuse. Keys go in a header, so no cookie is ever allowed.
 */
export function corsHeaders(
  origins: readonly string[],
  { method, headers }: Pick<IncomingMessage, 'method' | 'headers'>,
): HeaderList {
  if (origins.length === 0) return [];
  // Every response varies by origin if the service answers some origins and not others.
  const list = ['vary', 'origin'];
  const { origin } = headers;
  if (origin === undefined || !(origins.includes('*') || origins.includes(origin))) return list;
  list.push('access-control-allow-origin', origin, 'access-control-expose-headers', EXPOSED);
  if (method !== 'OPTIONS') return list;
  list.push('access-control-allow-methods', 'GET, HEAD, POST, DELETE');
  list.push('access-control-allow-headers', headers['access-control-request-headers'] ?? '*');
  list.push('access-control-max-age', PREFLIGHT_MAX_AGE_S);
  return list;
}
