import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { newId } from '@weighbridge/domain';
import { isJsonType } from '@weighbridge/runtime';
import type { ResolvedKey } from '@weighbridge/state';
import { ClientConnection, type DrainLimits } from '../attempt/clientConnection.ts';
import { ResponseHeaders } from '../attempt/responseHeaders.ts';
import { OPERATIONS, type Operation } from '../formats/operation.ts';
import { endpointOf } from '../observe/endpoints.ts';
import type { Action } from '../request/requestContext.ts';
import { type RunDeps, runRequest } from '../request/runRequest.ts';
import { HeldMemory } from '../shared/memoryBudget.ts';
import { OPENAI_OPERATIONS } from './clientPaths.ts';
import { type BodyLimits, readBody, takeBodyMemory } from './readBody.ts';
import { splitUrl } from './requestUrl.ts';

export interface FastPathDeps extends RunDeps {
  readonly bodyLimitBytes: number;
  readonly drainLimits: DrainLimits;
  /** Origins whose pages may call from a browser. */
  readonly corsOrigins: readonly string[];
}

const OPERATION_BY_PATH: ReadonlyMap<string, Operation> = new Map([
  ...OPERATIONS.map((operation) => [`/v1${operation.path}`, operation] as const),
  ...OPENAI_OPERATIONS.map((operation) => [`/openai/v1${operation.path}`, operation] as const),
]);

/**
 * Serves generation requests in their usual form without the web framework, which costs as much as everything else that this
 * service does with them (docs/benchmarks.md). A request with an unusual method, path, body length or header goes to
 * `framework`, which has all routes, these included.
 */
export function fastPath(deps: FastPathDeps, framework: RequestListener): RequestListener {
  return (request, response) => {
    const { path, query } = splitUrl(request.url ?? '');
    const operation = request.method === 'POST' ? OPERATION_BY_PATH.get(path) : undefined;
    if (operation && isUsual(request, query, deps.bodyLimitBytes)) {
      void generate(deps, operation, query, request, response);
    } else {
      framework(request, response);
    }
  };
}

function isUsual({ headers }: IncomingMessage, query: string, bodyLimitBytes: number): boolean {
  return (
    (query === '' || !query.includes('api-version')) &&
    Number(headers['content-length']) <= bodyLimitBytes &&
    isJsonType(headers['content-type']) &&
    headers['content-encoding'] === undefined &&
    headers.expect === undefined &&
    headers.origin === undefined &&
    headers.upgrade === undefined
  );
}

function generate(
  deps: FastPathDeps,
  operation: Operation,
  query: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // Every response varies by origin if the service answers some origins and not others.
  const headers = new ResponseHeaders(deps.corsOrigins.length > 0 ? ['vary', 'origin'] : []);
  const memory = new HeldMemory(deps.memory);
  const incoming = {
    id: newId('req'),
    dialect: operation.dialect,
    endpoint: endpointOf(operation),
    headers: request.headers,
    query,
    receivedAt: performance.now(),
    key: undefined,
    readAction: ({ principalId }: ResolvedKey) =>
      readGeneration(operation, request, { limitBytes: deps.bodyLimitBytes, memory, principalId }),
  };
  return runRequest(deps, incoming, new ClientConnection(response, headers, deps.drainLimits, memory));
}

/** Reads a body of the length that its head says; undefined if the client disconnects before its end. */
function readGeneration(
  operation: Operation,
  request: IncomingMessage,
  limits: BodyLimits,
): Promise<Action | undefined> {
  takeBodyMemory(request, limits);
  return readBody(request, limits, (body) => ({ kind: 'generation', operation, body }));
}
