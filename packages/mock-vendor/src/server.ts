import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { NORMAL, parseBehaviour } from './behaviour.ts';
import type { Bill } from './bill.ts';
import { newId } from './ids.ts';
import { AnswerOver, departureOf } from './peer.ts';
import type { Recorder } from './recorder.ts';
import { createReply, type Reply } from './reply.ts';
import { readBody } from './requestBody.ts';
import type { ResponseStore } from './responseStore.ts';
import { findRoute } from './routes.ts';
import {
  anthropicErrorBody,
  errorOfStatus,
  openaiErrorBody,
  serverError,
  VendorError,
} from './vendorError.ts';

// Longer than clients keep an idle socket, so that none picks one that is about to close.
const KEEP_ALIVE_TIMEOUT_MS = 120_000;

export interface ServerDeps {
  readonly bill: Bill;
  readonly recorder: Recorder;
  readonly stored: ResponseStore;
  readonly apiKey: string | undefined;
}

/** The vendor's HTTP server, not yet listening. */
export function createVendorServer(deps: ServerDeps): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS }, (request, response) => {
    // `serve` never rejects.
    void serve(deps, request, response);
  });
}

async function serve(deps: ServerDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const requestId = newId('req_');
  const gone = departureOf(response);
  const context = { requestId, startedAtMs: performance.now(), gone };
  let reply = createReply(response, context, NORMAL);
  try {
    const { method = 'GET', url: path = '/', headers, rawHeaders } = request;
    const body = await readBody(request);
    deps.recorder.record({ requestId, method, path, rawHeaders, headers, body });
    const handler = findRoute(method, path);
    authenticate(deps.apiKey, headers);

    const behaviour = parseBehaviour(headers);
    reply = createReply(response, context, behaviour);
    await reply.hold();
    if (behaviour.status !== undefined) throw errorOfStatus(behaviour.status);
    const { bill, stored } = deps;
    await handler({ requestId, path: pathOf(path), body, behaviour, bill, stored, reply, gone });
  } catch (error) {
    await answerError(error, reply, response, pathOf(request.url ?? '/'));
  }
}

function authenticate(apiKey: string | undefined, headers: IncomingHttpHeaders): void {
  const { authorization, 'x-api-key': ownHeader } = headers;
  if (apiKey === undefined || authorization === `Bearer ${apiKey}` || ownHeader === apiKey) return;
  if (authorization === undefined && ownHeader === undefined) {
    const message = "You didn't provide an API key. Send it in a header: Authorization: Bearer YOUR_KEY.";
    throw new VendorError(401, message);
  }
  throw errorOfStatus(401);
}

function pathOf(pathAndQuery: string): string {
  return pathAndQuery.replace(/\?.*$/s, '');
}

async function answerError(
  error: unknown,
  reply: Reply,
  response: ServerResponse,
  path: string,
): Promise<void> {
  if (error instanceof AnswerOver) return;
  // Too late for a status: break off, so that nobody takes the rest for an answer.
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const shown = error instanceof VendorError ? error : serverError();
  const body = path.startsWith('/v1/messages') ? anthropicErrorBody(shown) : openaiErrorBody(shown);
  try {
    await reply.json(shown.status, body, shown.headers);
  } catch {
    response.destroy();
  }
}
