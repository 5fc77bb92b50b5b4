import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { newId } from '@weighbridge/domain';
import type { AppError, HttpError } from '@weighbridge/errors';
import { methodNotAllowed } from '@weighbridge/runtime';
import { errorResponse } from '../attempt/errorResponse.ts';
import { ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { Dialect } from '../formats/operation.ts';
import { corsHeaders } from './cors.ts';
import { type Exchange, refuse, type ServerDeps } from './exchange.ts';
import { splitUrl } from './requestUrl.ts';
import type { ServedPath } from './router.ts';
import { findRoutes, type Route } from './routes.ts';
import { dialectOfUnserved, isUnservedOperation, routeNotServed } from './unservedRoutes.ts';
import { webSocketRefusal } from './webSocket.ts';

/** Serves the routes of `routes.ts`. What has no route is refused before its key and its body are looked at. */
export function inferenceHandler(deps: ServerDeps): RequestListener {
  return (request, response) => {
    if (request.headers['transfer-encoding'] === undefined) serve(deps, request, response);
    // What came of the chunks with the head is parsed by then. A refusal closes the connection only if more follows.
    else process.nextTick(serve, deps, request, response);
  };
}

function serve(deps: ServerDeps, request: IncomingMessage, response: ServerResponse): void {
  const { method = '' } = request;
  const { path, query } = splitUrl(request.url ?? '');
  const served = findRoutes(path);
  const route = served?.routes.get(method);
  const any = route ?? served?.any;
  const exchange: Exchange = {
    id: newId('req'),
    endpoint: any?.endpoint ?? 'other',
    dialect: dialectOf(any, request),
    request,
    response,
    headers: new ResponseHeaders(corsHeaders(deps.corsOrigins, request)),
    query,
    name: served?.name ?? '',
  };
  const refusal = webSocketRefusal(request.headers);
  if (refusal) refuse(deps, exchange, refusal);
  else if (route) route.serve(deps, exchange);
  else if (served && method === 'OPTIONS') sendMethods(exchange, served);
  else refuseRoute(deps, exchange, served);
}

function sendMethods({ id, headers, response }: Exchange, { allow }: ServedPath<Route>): void {
  response.writeHead(204, [...headers.list, 'x-request-id', id, 'allow', allow]).end();
}

function refuseRoute(deps: ServerDeps, exchange: Exchange, served: ServedPath<Route> | undefined): void {
  const { request } = exchange;
  const { method = '', url = '' } = request;
  if (served && !isUnservedOperation(method, splitUrl(url).path))
    refuse(deps, exchange, methodNotAllowed(method, served.allow));
  else refuse(deps, { ...exchange, dialect: dialectOfUnserved(request) }, routeNotServed(method, request));
}

function dialectOf(route: Route | undefined, request: Pick<IncomingMessage, 'url' | 'headers'>): Dialect {
  if (!route) return dialectOfUnserved(request);
  if (route.dialect !== 'header') return route.dialect;
  const { headers } = request;
  if (headers['anthropic-version'] !== undefined) return 'anthropic';
  return headers['x-goog-api-key'] === undefined ? 'openai' : 'gemini';
}

/** The response for a request that is refused before it reaches the handler. */
export function refusalResponse(error: AppError, requestId: string, url: string): HttpError<object> {
  const route = findRoutes(splitUrl(url).path)?.any;
  const dialect = route ? dialectOf(route, { url, headers: {} }) : dialectOfPrefix(url);
  return errorResponse(dialect, error, requestId);
}

function dialectOfPrefix(url: string): Dialect {
  if (/^\/v1\/messages(?=[/?]|$)/.test(url)) return 'anthropic';
  return /^\/v1beta(?=[/?]|$)/.test(url) ? 'gemini' : 'openai';
}
