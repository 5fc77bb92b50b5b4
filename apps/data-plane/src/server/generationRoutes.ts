import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { newId } from '@weighbridge/domain';
import { isJsonType } from '@weighbridge/runtime';
import { AnswerHeaders } from '../attempt/answerHeaders.ts';
import { Client } from '../attempt/client.ts';
import { addRequestId, errorAnswer, sendError } from '../attempt/failure.ts';
import { Body } from '../formats/body.ts';
import { OPERATIONS, type Operation } from '../formats/operation.ts';
import { endpointOf } from '../observe/endpoints.ts';
import { authenticate } from '../request/authenticate.ts';
import { type AnswerDeps, answer } from './answer.ts';
import { splitUrl } from './requestUrl.ts';

/** Below `/v1`, as nearly all clients write them. */
const BY_PATH: ReadonlyMap<string, Operation> = new Map(
  OPERATIONS.map((operation) => [`/v1${operation.path}`, operation]),
);

/**
 * Serves what nearly all requests are, a model asked to do something in the usual form, without the framework's help: that
 * costs as much as all that this service does with them (docs/benchmarks.md). Whatever is unusual about a request, its
 * body's form and length, its path or its method, is left to `others`, which knows all routes, these ones too.
 */
export function generationRoutes(deps: AnswerDeps, others: RequestListener): RequestListener {
  return (request, response) => {
    const { path, query } = splitUrl(request.url ?? '');
    const operation = request.method === 'POST' ? BY_PATH.get(path) : undefined;
    if (operation && isUsual(request, deps.bodyLimitBytes)) {
      void generate(deps, operation, query, request, response);
    } else {
      others(request, response);
    }
  };
}

function isUsual({ headers }: IncomingMessage, bodyLimitBytes: number): boolean {
  return (
    Number(headers['content-length']) <= bodyLimitBytes &&
    isJsonType(headers['content-type']) &&
    headers['content-encoding'] === undefined &&
    headers.expect === undefined &&
    headers.origin === undefined
  );
}

async function generate(
  deps: AnswerDeps,
  operation: Operation,
  query: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const id = newId('req');
  const receivedAt = performance.now();
  const { headers } = request;
  // As for all answers where some pages may call, and others not.
  const own = new AnswerHeaders(deps.corsOrigins.length > 0 ? ['vary', 'origin'] : []);
  const begun = { id, endpoint: endpointOf(operation), receivedAt, key: undefined };
  const observed = deps.observer.begin(begun, headers);
  const client = new Client(response, own);
  try {
    // Before the body is read: nobody uploads 32 MiB to learn that the key is wrong.
    const key = await authenticate(deps.keys, headers, operation.wire, deps.now().getTime());
    observed.key = key;
    const body = await bodyOf(request);
    // The caller left before it had said what it wants.
    if (!body) return deps.observer.answered(observed, 0);
    const asks = { kind: 'generation', operation, body } as const;
    await answer(deps, { id, key, headers, query, receivedAt, asks, observed }, operation.wire, client);
    deps.observer.answered(observed, response.statusCode);
  } catch (error) {
    const told = errorAnswer(operation.wire, error, id);
    deps.observer.failed(observed, error, told.status);
    if (told.status >= 500) deps.logger.error({ err: error, requestId: id }, 'a request failed');
    // Whoever took it answers it.
    if (client.isTaken || response.headersSent || response.destroyed) return;
    addRequestId(own, operation.wire, id);
    sendError(response, own, told, id);
  }
}

/** Of the length that its head says; undefined where it breaks off. */
function bodyOf(request: IncomingMessage): Promise<Body | undefined> {
  return new Promise((resolve) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => resolve(new Body(pieces)));
    request.on('error', () => resolve(undefined));
    request.on('close', () => resolve(undefined));
  });
}
