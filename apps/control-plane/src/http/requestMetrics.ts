import type { Metrics } from '@weighbridge/runtime';
import type { FastifyInstance } from 'fastify';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** Polled by probes and scrapers. */
const NOT_COUNTED = new Set(['/healthz', '/readyz', '/metrics']);

/** Counts requests to the operator API by route template. Call it before routes are registered. */
export function countRequests(app: FastifyInstance, metrics: Metrics): void {
  const total = metrics.counterFamily(
    'weighbridge_management_requests_total',
    'Requests to the operator API.',
    ['method', 'route', 'status'],
  );
  const duration = metrics.histogramFamily(
    'weighbridge_management_request_duration_seconds',
    'Duration of requests to the operator API.',
    ['method', 'route'],
    SECONDS,
  );
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    if (NOT_COUNTED.has(route)) return;
    total.of(request.method, route, String(reply.statusCode)).add(1);
    duration.of(request.method, route).observe(reply.elapsedTime / 1_000);
  });
}
