import type { IncomingMessage, RequestListener } from 'node:http';
import { AppError, type HttpError, raise } from '@weighbridge/errors';
import {
  clientGone,
  createHttpApp,
  expectJsonBody,
  refuseOtherMethods,
  toHandler,
} from '@weighbridge/runtime';
import type { ResolvedKey } from '@weighbridge/state';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ClientConnection } from '../attempt/clientConnection.ts';
import { errorResponse } from '../attempt/errorResponse.ts';
import { ResponseHeaders } from '../attempt/responseHeaders.ts';
import { withModel } from '../formats/generationRequest.ts';
import { type Dialect, OPERATIONS, type Operation } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { type Endpoint, endpointOf, endpointOfRoute } from '../observe/endpoints.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { authenticate } from '../request/authenticate.ts';
import { FEEDBACK_BYTES, readFeedback } from '../request/feedback.ts';
import { type GeminiModelsQuery, listGeminiModels, retrieveGeminiModel } from '../request/geminiModels.ts';
import { listModels, type ModelsQuery, retrieveModel } from '../request/listModels.ts';
import { noteRefusal } from '../request/noteRefusal.ts';
import type { StoredResponseAction } from '../request/planRequest.ts';
import { type FeedbackDeps, giveFeedback } from '../request/recordFeedback.ts';
import type { Action } from '../request/requestContext.ts';
import { currentTable, runRequest } from '../request/runRequest.ts';
import { HeldMemory } from '../shared/memoryBudget.ts';
import { BODY_ENCODINGS, bodyEncoding } from './bodyDecoders.ts';
import {
  belowPrefix,
  DEPLOYMENT_PREFIX,
  OPENAI_OPERATIONS,
  OPENAI_PREFIXES,
  withOneDeployment,
} from './clientPaths.ts';
import { allowOrigins } from './cors.ts';
import { type FastPathDeps, fastPath } from './fastPath.ts';
import { addGeminiOperations, isGeminiPath, withOneModel } from './geminiRoutes.ts';
import { type BodyLimits, readBody, takeBodyMemory } from './readBody.ts';
import { readEncodedBody } from './readEncodedBody.ts';
import { splitUrl, withoutApiVersion } from './requestUrl.ts';
import {
  dialectOfUnserved,
  isModelOperation,
  operationNotServed,
  ROUTE_NOT_SERVED,
  routeNotServed,
} from './unservedRoutes.ts';
import { refuseWebSocket } from './webSocket.ts';

declare module 'fastify' {
  interface FastifyRequest {
    key: ResolvedKey;
    /** Monotonic, in milliseconds. */
    receivedAt: number;
    /** Set once a handler of this service runs. */
    observed: RequestObservation | undefined;
    /** Set once a body is read; whoever takes it over closes it. */
    memory: HeldMemory | undefined;
  }
}

export interface AppDeps extends FastPathDeps, Pick<FeedbackDeps, 'recordFeedback'> {
  readonly notReady: () => string | undefined;
  /** What this proxy can't do now, though it serves. */
  readonly degraded?: () => string | undefined;
}

/** The whole surface as a plain request listener; resolves when it is ready. */
export async function inferenceHandler(app: FastifyInstance, deps: AppDeps): Promise<RequestListener> {
  return fastPath(deps, await toHandler(app));
}

/** The inference surface. This list is its map. */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = createHttpApp({
    ...deps,
    rewriteUrl: (url) => withOneModel(withOneDeployment(url)),
    routeNotFound: (method, path, { url, headers }) =>
      routeNotServed(method, path, dialectOfUnserved(url, headers)),
    errorResponse: (error, request) => {
      const { url, headers, is404 } = request;
      const isUnserved = is404 || (error instanceof AppError && error.code === ROUTE_NOT_SERVED);
      const dialect = isUnserved ? dialectOfUnserved(url, headers) : dialectOf(request);
      const sent = errorResponse(dialect, error, request.id);
      const endpoint = endpointOfRoute(belowPrefix(request.routeOptions?.url));
      const observed = request.observed ?? observe(deps, request, endpoint);
      deps.observer.failed(observed, error, sent.status);
      noteRefusal(deps.noteRefusal, observed, error, sent.status, headers);
      return sent;
    },
  });
  passBodiesUnparsed(app, deps);
  allowOrigins(app, deps.corsOrigins);
  app.addHook('onRequest', async ({ headers }) => refuseWebSocket(headers));
  app.register(
    surface(deps, [addOperations(OPERATIONS), addStoredResponses, addModels, addGemini, addFeedback]),
    {
      prefix: '/v1',
    },
  );
  app.register(surface(deps, [addModels, addGemini]), { prefix: '/v1beta' });
  for (const prefix of OPENAI_PREFIXES) {
    app.register(surface(deps, [addOperations(OPENAI_OPERATIONS), addStoredResponses, addModels]), {
      prefix,
    });
  }
  app.register(surface(deps, [addDeployments]), { prefix: DEPLOYMENT_PREFIX });
  return app;
}

type AddRoutes = (api: FastifyInstance, deps: AppDeps) => void;

/** The routes below one prefix. */
function surface(deps: AppDeps, routes: readonly AddRoutes[]): (api: FastifyInstance) => Promise<void> {
  return async (api) => {
    const others = refuseOtherMethods(api, (method, path, { url, headers }) =>
      operationNotServed(method, path, dialectOfUnserved(url, headers)),
    );
    authenticateFirst(api, deps);
    for (const add of routes) add(api, deps);
    others.register();
  };
}

function addOperations(operations: readonly Operation[]): AddRoutes {
  return (api, deps) => {
    for (const operation of operations) {
      api.post(operation.path, (request, reply) =>
        run(deps, request, reply, { kind: 'generation', operation, body: bodyOf(request) }),
      );
    }
  };
}

/** Of Azure's clients: the deployment is the model, whatever the body says. */
function addDeployments(api: FastifyInstance, deps: AppDeps): void {
  for (const operation of OPENAI_OPERATIONS) {
    api.post<{ Params: { deployment: string } }>(operation.path, async (request, reply) => {
      const body = withModel(bodyOf(request), request.params.deployment);
      await run(deps, request, reply, { kind: 'generation', operation, body });
    });
  }
}

type WithId = { Params: { id: string } };

function addStoredResponses(api: FastifyInstance, deps: AppDeps): void {
  const stored =
    (method: StoredResponseAction['method'], rest: string) =>
    (request: FastifyRequest<WithId>, reply: FastifyReply) =>
      run(deps, request, reply, { kind: 'stored_response', method, responseId: request.params.id, rest });
  api.get<WithId>('/responses/:id', stored('GET', ''));
  api.delete<WithId>('/responses/:id', stored('DELETE', ''));
  api.get<WithId>('/responses/:id/input_items', stored('GET', '/input_items'));
  api.post<WithId>('/responses/:id/cancel', stored('POST', '/cancel'));
}

function addModels(api: FastifyInstance, deps: AppDeps): void {
  api.get<{ Querystring: ModelsQuery & GeminiModelsQuery }>('/models', (request) =>
    answerHere(deps, request, 'models', () => {
      const { key, query } = request;
      const dialect = dialectOf(request);
      return dialect === 'gemini'
        ? listGeminiModels(key, currentTable(deps), query)
        : listModels(key, currentTable(deps), dialect, query);
    }),
  );
  // A model's name has slashes in it, which some clients escape and others do not.
  api.get<{ Params: { '*': string } }>('/models/*', (request) =>
    answerHere(deps, request, 'models', () => {
      const { key, params, url, headers } = request;
      const dialect = dialectOf(request);
      if (isModelOperation(params['*']))
        throw routeNotServed('GET', splitUrl(url).path, dialectOfUnserved(url, headers));
      return dialect === 'gemini'
        ? retrieveGeminiModel(key, currentTable(deps), params['*'])
        : retrieveModel(key, currentTable(deps), dialect, params['*']);
    }),
  );
}

function addFeedback(api: FastifyInstance, deps: AppDeps): void {
  api.post('/feedback', { bodyLimit: FEEDBACK_BYTES }, (request, reply) =>
    answerHere(deps, request, 'feedback', async () => {
      const feedback = readFeedback(bodyOf(request).toBuffer());
      const status = await giveFeedback(deps, request.key, feedback);
      reply.code(status === 'counted' ? 200 : 202);
      return { request_id: feedback.requestId, status };
    }),
  );
}

function addGemini(api: FastifyInstance, deps: AppDeps): void {
  addGeminiOperations(api, (request, reply, gemini) => {
    const { operation } = gemini;
    return run(deps, request, reply, { kind: 'generation', operation, body: bodyOf(request), gemini });
  });
}

const NO_BODY = new RequestBody([]);

function bodyOf({ body }: FastifyRequest): RequestBody {
  return (body as RequestBody | undefined) ?? NO_BODY;
}

/** Bodies stay bytes: what the service reads in them, it finds by scanning. */
function passBodiesUnparsed(app: FastifyInstance, deps: AppDeps): void {
  app.decorateRequest('memory', undefined);
  app.addHook('preParsing', (request, reply, payload, done) => {
    try {
      const reserve = () => {
        // A client that left while its key was looked up has closed already: nothing would return the memory.
        if (reply.raw.destroyed || request.raw.socket.destroyed) throw clientGone();
        const memory = new HeldMemory(deps.memory);
        reply.raw.once('close', () => request.memory?.close());
        request.memory = memory;
        takeBodyMemory(request.raw, bodyLimits(request, memory));
      };
      expectJsonBody(request, reply.raw, reserve, BODY_ENCODINGS);
      done(null, payload);
    } catch (error) {
      done(error as Error);
    }
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    const { memory = new HeldMemory(deps.memory) } = request;
    const limits = bodyLimits(request, memory);
    const encoding = bodyEncoding(request.headers);
    const body = await (encoding
      ? readEncodedBody(payload, encoding, limits)
      : readBody(payload, limits, (read) => read));
    return body ?? raise(clientGone());
  });
}

function bodyLimits({ routeOptions, key }: FastifyRequest, memory: HeldMemory): BodyLimits {
  return { limitBytes: routeOptions.bodyLimit, memory, principalId: key?.principalId ?? '' };
}

/** Before the body is read: no one uploads 32 MiB to learn that a key is wrong. */
function authenticateFirst(api: FastifyInstance, deps: AppDeps): void {
  api.decorateRequest('key', null as unknown as ResolvedKey);
  api.decorateRequest('receivedAt', 0);
  api.decorateRequest('observed', undefined);
  api.addHook('onRequest', async (request, reply) => {
    const dialect = dialectOf(request);
    if (dialect === 'anthropic') reply.header('request-id', request.id);
    // A browser sends the preflight without a key.
    if (request.method === 'OPTIONS') return;
    request.receivedAt = performance.now();
    request.key = await authenticate(
      deps.keys,
      { headers: request.headers, dialect, query: splitUrl(request.url).query },
      deps.now().getTime(),
    );
  });
}

/** Runs a request that came in through the framework; from here on the framework writes nothing. */
function run(deps: AppDeps, request: FastifyRequest, reply: FastifyReply, action: Action): Promise<void> {
  const { id, key, headers, receivedAt, url, memory = new HeldMemory(deps.memory) } = request;
  request.memory = undefined;
  reply.hijack();
  const incoming = {
    id,
    dialect: dialectOf(request),
    endpoint: action.kind === 'generation' ? endpointOf(action.operation) : 'stored_responses',
    headers,
    query: url.startsWith('/openai/') ? withoutApiVersion(splitUrl(url).query) : splitUrl(url).query,
    receivedAt,
    key,
    readAction: () => action,
  } as const;
  const client = new ClientConnection(reply.raw, new ResponseHeaders(), deps.drainLimits, memory);
  return runRequest(deps, incoming, client);
}

/** Answers without a vendor; the framework writes what is returned. */
async function answerHere<Answer>(
  deps: AppDeps,
  request: FastifyRequest,
  endpoint: Endpoint,
  work: () => Answer | Promise<Answer>,
): Promise<Answer> {
  const observed = observe(deps, request, endpoint);
  request.observed = observed;
  const answer = await work();
  observed.outcome = 'success';
  deps.observer.answered(observed, 200);
  return answer;
}

function observe({ observer }: AppDeps, request: FastifyRequest, endpoint: Endpoint): RequestObservation {
  const { id, headers, key, receivedAt } = request;
  // A request without a route, or refused before its key was checked, has neither key nor time.
  const begun = { id, endpoint, receivedAt: receivedAt || performance.now(), key: key ?? undefined };
  return observer.begin(begun, headers);
}

/** The response for a request that is refused before it reaches the application. */
export function refusalResponse(error: AppError, requestId: string, url: string): HttpError<object> {
  return errorResponse(dialectOf({ url, headers: {} }), error, requestId);
}

const MESSAGES_PATH = /^\/v1\/messages(?=[/?]|$)/;
const MODELS_PATH = /^\/v1\/models(?=[/?]|$)/;

/** The dialect of a request: by its path, and on `/v1/models`, which several dialects have, by a header. */
function dialectOf({ url, headers }: Pick<FastifyRequest, 'url' | 'headers'>): Dialect {
  if (MESSAGES_PATH.test(url)) return 'anthropic';
  if (isGeminiPath(url)) return 'gemini';
  if (!MODELS_PATH.test(url)) return 'openai';
  if (headers['anthropic-version'] !== undefined) return 'anthropic';
  return headers['x-goog-api-key'] === undefined ? 'openai' : 'gemini';
}
