import type { TracedSpan, Tracing } from '@weighbridge/runtime';
import type { FastifyInstance } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    span: TracedSpan | undefined;
  }
}

/** Polled by probes and scrapers. */
const NOT_TRACED = new Set(['/healthz', '/readyz', '/metrics']);

/** Traces requests to the operator API as part of the client's trace. Call it before routes are registered. */
export function traceRequests(app: FastifyInstance, tracing: Tracing): void {
  app.decorateRequest('span', undefined);
  app.addHook('onRequest', async (request) => {
    const route = request.routeOptions.url;
    if (route !== undefined && NOT_TRACED.has(route)) return;
    request.span = tracing.begin(`${request.method} ${route ?? ''}`.trimEnd(), {
      kind: 'server',
      parent: request.headers,
      attributes: {
        'http.request.method': request.method,
        'http.route': route,
        'weighbridge.request.id': request.id,
      },
    });
  });
  app.addHook('onResponse', async ({ span }, { statusCode }) => {
    span?.set({ 'http.response.status_code': statusCode });
    span?.end(statusCode >= 500 ? String(statusCode) : undefined);
  });
}
