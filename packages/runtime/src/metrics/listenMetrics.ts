import type { RequestListener, ServerResponse } from 'node:http';
import { newId } from '@weighbridge/domain';
import { AppError, toHttpError } from '@weighbridge/errors';
import { listenHttp } from '../http/httpServer.ts';
import type { ServiceContext } from '../service/runService.ts';
import type { Metrics } from './metrics.ts';

export interface MetricsAddress {
  readonly host: string;
  readonly port: number;
}

const CLOSE_MS = 1_000;

/**
 * Serves `GET /metrics` on its own port, for as long as the process runs: call it before what takes long to stop is
 * started. Does nothing without an address.
 */
export async function listenMetrics(
  address: MetricsAddress | undefined,
  metrics: Metrics,
  { logger, onShutdown }: Pick<ServiceContext, 'logger' | 'onShutdown'>,
): Promise<void> {
  if (!address) return;
  const server = await listenHttp({
    handler: metricsHandler(metrics),
    ...address,
    portSetting: 'METRICS_PORT',
  });
  onShutdown('metrics', () => server.close(CLOSE_MS), CLOSE_MS + 1_000);
  logger.info({ url: `${server.url}/metrics` }, 'metrics are served');
}

function metricsHandler(metrics: Metrics): RequestListener {
  return ({ method, url = '/' }, response) => {
    const path = url.split('?', 1)[0];
    if (path !== '/metrics') {
      const message = `No route matches ${method} ${path}. This port serves GET /metrics only.`;
      return refuse(response, new AppError('not_found', 'route_not_found', message));
    }
    if (method !== 'GET' && method !== 'HEAD') {
      const message = `The method ${method} is not allowed for this path. Use GET, HEAD.`;
      const headers = { allow: 'GET, HEAD' };
      return refuse(response, new AppError('method_not_allowed', 'method_not_allowed', message, { headers }));
    }
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
      (error: unknown) => refuse(response, error),
    );
  };
}

function refuse(response: ServerResponse, error: unknown): void {
  const requestId = newId('req');
  const { status, headers, body } = toHttpError(error, requestId);
  const type = { 'content-type': 'application/json; charset=utf-8', 'x-request-id': requestId };
  response.writeHead(status, { ...type, ...headers }).end(JSON.stringify(body));
}
