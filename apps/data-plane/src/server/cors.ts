import type { FastifyInstance } from 'fastify';

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
  'x-svc-estimated',
  'x-svc-model',
  'x-svc-overhead-ms',
].join(', ');

/**
 * Lets pages of these origins call the service from a browser (https://fetch.spec.whatwg.org/#http-cors-protocol); `*`
 * stands for all. Without any, nothing is said, and browsers refuse. Keys go in a header, so no cookie is ever allowed.
 */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const isAllowed = (origin: string) => origins.includes('*') || origins.includes(origin);
  app.addHook('onRequest', async ({ method, headers }, reply) => {
    const { origin } = headers;
    // On the socket's own response: an answer that is relayed does not go through Fastify's.
    reply.raw.setHeader('vary', 'origin');
    if (origin === undefined || !isAllowed(origin)) return;
    reply.raw.setHeader('access-control-allow-origin', origin);
    reply.raw.setHeader('access-control-expose-headers', EXPOSED);
    if (method !== 'OPTIONS') return;
    reply.raw.setHeader('access-control-allow-methods', 'GET, HEAD, POST, DELETE');
    reply.raw.setHeader('access-control-allow-headers', headers['access-control-request-headers'] ?? '*');
    reply.raw.setHeader('access-control-max-age', PREFLIGHT_MAX_AGE_S);
  });
}
