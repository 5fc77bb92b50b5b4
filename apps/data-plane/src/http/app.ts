import { AppError } from '@weighbridge/errors';
import { createHttpApp, type Logger, refuseOtherMethods, requireJsonType } from '@weighbridge/runtime';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { readFeedback } from '../feedback/feedback.ts';
import { type FeedbackDeps, giveFeedback } from '../feedback/giveFeedback.ts';
import { type Endpoint, endpointOf, endpointOfRoute } from '../observe/endpoints.ts';
import { type Observed, observe } from '../observe/observed.ts';
import type { Observer } from '../observe/observer.ts';
import { listModels, type ModelsQuery, retrieveModel } from '../operations/models.ts';
import { OPERATIONS } from '../operations/operation.ts';
import { COUNTER_REPLACED } from '../pipeline/attemptLog.ts';
import { authenticate } from '../pipeline/authenticate.ts';
import { errorAnswer } from '../pipeline/failure.ts';
import type { Generation, StoredResponse } from '../pipeline/plan.ts';
import { requireTable, type ServeDeps, serve } from '../pipeline/serve.ts';
import { allowOrigins } from './cors.ts';
import { wireOf } from './wire.ts';

declare module 'fastify' {
  interface FastifyRequest {
    key: ResolvedKey;
    /** Monotonic, in milliseconds. */
    receivedAt: number;
    /** From when its handler began. */
    observed: Observed | undefined;
  }
}

export interface AppDeps extends ServeDeps, Pick<FeedbackDeps, 'recordFeedback'> {
  readonly keys: KeyCache;
  readonly logger: Logger;
  readonly bodyLimitBytes: number;
  /** Origins whose pages may call from a browser. */
  readonly corsOrigins: readonly string[];
  readonly notReady: () => string | undefined;
  readonly observer: Observer;
}

/** The inference surface. This list is its map. */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = createHttpApp({
    ...deps,
    errorAnswer: (error, request) => {
      deps.observer.failed(
        request.observed ?? observedOf(request, endpointOfRoute(request.routeOptions?.url)),
        error,
      );
      return errorAnswer(wireOf(request), error, request.id);
    },
  });
  keepBodiesAsTheyAre(app);
  allowOrigins(app, deps.corsOrigins);
  app.register(
    async (api) => {
      const others = refuseOtherMethods(api);
      authenticateFirst(api, deps);
      for (const operation of OPERATIONS) {
        api.post(operation.path, async (request, reply) => {
          const body = (request.body as Buffer | undefined) ?? NO_BODY;
          await answer(deps, request, reply, { kind: 'generation', operation, body });
        });
      }

      type WithId = { Params: { id: string } };
      const stored =
        (method: StoredResponse['method'], rest: string) =>
        (request: FastifyRequest<WithId>, reply: FastifyReply) =>
          answer(deps, request, reply, {
            kind: 'stored response',
            method,
            responseId: request.params.id,
            rest,
          });
      api.get<WithId>('/responses/:id', stored('GET', ''));
      api.delete<WithId>('/responses/:id', stored('DELETE', ''));
      api.get<WithId>('/responses/:id/input_items', stored('GET', '/input_items'));
      api.post<WithId>('/responses/:id/cancel', stored('POST', '/cancel'));

      api.get<{ Querystring: ModelsQuery }>('/models', async (request) =>
        observing(deps, request, 'models', () =>
          listModels(request.key, requireTable(deps), wireOf(request), request.query),
        ),
      );
      // A model's name has slashes in it, which some clients escape and others do not.
      api.get<{ Params: { '*': string } }>('/models/*', async (request) =>
        observing(deps, request, 'models', () =>
          retrieveModel(request.key, requireTable(deps), wireOf(request), request.params['*']),
        ),
      );
      api.post('/feedback', { bodyLimit: FEEDBACK_BYTES }, async (request, reply) =>
        observing(deps, request, 'feedback', async () => {
          const feedback = readFeedback((request.body as Buffer | undefined) ?? NO_BODY);
          const status = await giveFeedback(deps, request.key, feedback);
          reply.code(status === 'counted' ? 200 : 202);
          return { request_id: feedback.requestId, status };
        }),
      );
      others.register();
    },
    { prefix: '/v1' },
  );
  return app;
}

const NO_BODY = Buffer.alloc(0);
/** A comment of a thousand characters takes half of it, whatever they are. */
const FEEDBACK_BYTES = 16 * 1_024;

/** Bodies stay the bytes that they are: what the service reads in them, it finds by scanning. */
function keepBodiesAsTheyAre(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    '*',
    { parseAs: 'buffer' },
    async (request: Parameters<typeof requireJsonType>[0], body: Buffer) => {
      requireJsonType(request);
      return body;
    },
  );
}

/** Before the body is read: nobody uploads 32 MiB to learn that the key is wrong. */
function authenticateFirst(api: FastifyInstance, deps: AppDeps): void {
  api.decorateRequest('key', null as unknown as ResolvedKey);
  api.decorateRequest('receivedAt', 0);
  api.decorateRequest('observed', undefined);
  api.addHook('onRequest', async (request, reply) => {
    const wire = wireOf(request);
    if (wire === 'anthropic') reply.header('request-id', request.id);
    // A browser asks this before it shows any key.
    if (request.method === 'OPTIONS') return;
    request.receivedAt = performance.now();
    request.key = await authenticate(deps.keys, request.headers, wire, deps.now().getTime());
  });
}

async function answer(
  deps: AppDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  asks: Generation | StoredResponse,
): Promise<void> {
  const { id, headers, receivedAt, url } = request;
  const question = url.indexOf('?');
  const query = question < 0 ? '' : url.slice(question);
  const client = { response: reply.raw, take: () => reply.hijack() };
  const endpoint = asks.kind === 'generation' ? endpointOf(asks.operation) : 'stored_responses';
  const observed = observedOf(request, endpoint);
  request.observed = observed;
  const common = { id, headers, query, receivedAt, asks, observed };
  try {
    await serve(deps, { ...common, key: request.key }, client);
  } catch (error) {
    // Nothing was sent yet: with the counters that hold now, it is served as any other.
    if (!(error instanceof AppError && error.code === COUNTER_REPLACED) || reply.sent) throw error;
    const nowMs = deps.now().getTime();
    const key = await authenticate(deps.keys, headers, wireOf(request), nowMs, 'refresh');
    await serve(deps, { ...common, key }, client);
  }
  deps.observer.answered(observed, reply.raw.statusCode);
}

/** What this service answers by itself. */
async function observing<Answer>(
  deps: AppDeps,
  request: FastifyRequest,
  endpoint: Endpoint,
  work: () => Answer | Promise<Answer>,
): Promise<Answer> {
  const observed = observedOf(request, endpoint);
  request.observed = observed;
  const answer = await work();
  observed.outcome = 'success';
  deps.observer.answered(observed, 200);
  return answer;
}

function observedOf({ id, key, receivedAt }: FastifyRequest, endpoint: Endpoint): Observed {
  // What has no route, and what is refused before its key is looked at, has neither.
  return observe({ id, endpoint, receivedAt: receivedAt || performance.now(), key: key ?? undefined });
}
