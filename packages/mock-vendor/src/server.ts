import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Signer } from './history/signer.ts';
import { disconnectSignal, ReplyAborted } from './http/disconnect.ts';
import { createReply, type Reply } from './http/reply.ts';
import { readBody } from './http/requestBody.ts';
import type { Bill } from './records/bill.ts';
import type { Recorder } from './records/recorder.ts';
import type { ResponseStore } from './records/responseStore.ts';
import { findRoute } from './routes.ts';
import { NORMAL, parseBehaviour } from './shared/behaviour.ts';
import { newId } from './shared/ids.ts';
import type { RequestLimit } from './shared/requestLimit.ts';
import type { VendorTraits } from './shared/traits.ts';
import {
  anthropicErrorBody,
  errorOfStatus,
  googleErrorBody,
  openaiErrorBody,
  serverError,
  VendorError,
} from './shared/vendorError.ts';

// Longer than clients keep an idle socket, so that no client uses one that is about to close.
const KEEP_ALIVE_TIMEOUT_MS = 120_000;

export interface ServerDeps {
  readonly bill: Bill;
  readonly recorder: Recorder;
  readonly stored: ResponseStore;
  readonly apiKey: string | undefined;
  readonly traits: VendorTraits;
  readonly signer: Signer | undefined;
  readonly requestLimit: RequestLimit;
  /** Headers that every request is taken to have. */
  readonly script: () => IncomingHttpHeaders;
}

/** The vendor's HTTP server; it does not listen yet. */
export function createVendorServer(deps: ServerDeps): Server {
  return createServer({ keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS }, (request, response) => {
    // `serve` never rejects.
    void serve(deps, request, response);
  });
}

async function serve(deps: ServerDeps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const requestId = newId('req_');
  const disconnected = disconnectSignal(response);
  const context = { requestId, startedAtMs: performance.now(), disconnected };
  let reply = createReply(response, context, NORMAL);
  try {
    const { method = 'GET', url: path = '/', headers, rawHeaders } = request;
    const body = await readBody(request);
    deps.recorder.record({ requestId, method, path, rawHeaders, headers, body });
    const handler = findRoute(method, path);
    authenticate(deps.apiKey, headers, isGemini(pathOf(path)));
    deps.requestLimit.take(response);

    const behaviour = parseBehaviour({ ...deps.script(), ...headers });
    reply = createReply(response, context, behaviour);
    await reply.hold();
    if (behaviour.status !== undefined) throw errorOfStatus(behaviour.status);
    const { bill, stored, traits, signer } = deps;
    const account = accountOf(headers);
    await handler({
      requestId,
      path: pathOf(path),
      query: path.slice(pathOf(path).length),
      body,
      account,
      behaviour,
      traits,
      bill,
      stored,
      signer,
      reply,
      disconnected,
    });
  } catch (error) {
    await sendError(error, reply, response, pathOf(request.url ?? '/'));
  }
}

function authenticate(apiKey: string | undefined, headers: IncomingHttpHeaders, isGemini: boolean): void {
  const { authorization, 'x-api-key': ownHeader = headers['x-goog-api-key'] } = headers;
  if (isGemini && apiKey !== undefined && ownHeader !== apiKey) {
    const message = 'API key not valid. Please pass a valid API key.';
    throw new VendorError(400, message, { code: 'invalid_api_key' });
  }
  if (apiKey === undefined || authorization === `Bearer ${apiKey}` || ownHeader === apiKey) return;
  if (authorization === undefined && ownHeader === undefined) {
    const message = "You didn't provide an API key. Send it in a header: Authorization: Bearer YOUR_KEY.";
    throw new VendorError(401, message);
  }
  throw errorOfStatus(401);
}

function accountOf({
  authorization,
  'x-api-key': ownHeader,
  'x-goog-api-key': googleHeader,
}: IncomingHttpHeaders): string {
  return String(ownHeader ?? googleHeader ?? authorization?.replace(/^Bearer /, '') ?? '');
}

function pathOf(pathAndQuery: string): string {
  return pathAndQuery.replace(/\?.*$/s, '');
}

function isGemini(path: string): boolean {
  return /^\/v1(beta)?\/models\/[^/]+:/.test(path);
}

function bodyOf(error: VendorError, path: string): object {
  if (path.startsWith('/v1/messages')) return anthropicErrorBody(error);
  return isGemini(path) ? googleErrorBody(error) : openaiErrorBody(error);
}

async function sendError(
  error: unknown,
  reply: Reply,
  response: ServerResponse,
  path: string,
): Promise<void> {
  if (error instanceof ReplyAborted) return;
  // Too late for a status: closes the socket, so that the client sees an incomplete response.
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const shown = error instanceof VendorError ? error : serverError();
  const body = bodyOf(shown, path);
  try {
    await reply.json(shown.status, body, shown.headers);
  } catch {
    response.destroy();
  }
}
