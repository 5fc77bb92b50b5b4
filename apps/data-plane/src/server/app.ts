import type { RequestListener } from 'node:http';
import { assertJsonType, createHttpApp, refuseOtherMethods, toHandler } from '@weighbridge/runtime';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AnswerHeaders } from '../attempt/answerHeaders.ts';
import { Client } from '../attempt/client.ts';
import { errorAnswer } from '../attempt/failure.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { Body } from '../formats/body.ts';
import { OPERATIONS } from '../formats/operation.ts';
import { type Endpoint, endpointOf, endpointOfRoute } from '../observe/endpoints.ts';
import type { Observed } from '../observe/observed.ts';
import { authenticate } from '../request/authenticate.ts';
import { readFeedback } from '../request/feedback.ts';
import { type FeedbackDeps, giveFeedback } from '../request/giveFeedback.ts';
import { listModels, type ModelsQuery, retrieveModel } from '../request/models.ts';
import type { Generation, StoredResponse } from '../request/planRequest.ts';
import { requireTable } from '../request/serve.ts';
import { type AnswerDeps, answer } from './answer.ts';
import { allowOrigins } from './cors.ts';
import { generationRoutes } from './generationRoutes.ts';
import { splitUrl } from './requestUrl.ts';
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

export interface AppDeps extends AnswerDeps, Pick<FeedbackDeps, 'recordFeedback'> {
  readonly notReady: () => string | undefined;
}

/** The whole surface as a plain request listener; ready when the promise resolves. */
export async function inferenceHandler(app: FastifyInstance, deps: AppDeps): Promise<RequestListener> {
  return generationRoutes(deps, await toHandler(app));
}

/** The inference surface. This list is its map. */
export function buildApp(deps: AppDeps): FastifyInstance {
  const app = createHttpApp({
    ...deps,
    errorAnswer: (error, request) => {
      const told = errorAnswer(wireOf(request), error, request.id);
      const observed =
        request.observed ?? observedOf(deps, request, endpointOfRoute(request.routeOptions?.url));
      deps.observer.failed(observed, error, told.status);
      return told;
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
          const body = new Body([(request.body as Buffer | undefined) ?? NO_BODY]);
          await answerRouted(deps, request, reply, { kind: 'generation', operation, body });
        });
      }

      type WithId = { Params: { id: string } };
      const stored =
        (method: StoredResponse['method'], rest: string) =>
        (request: FastifyRequest<WithId>, reply: FastifyReply) =>
          answerRouted(deps, request, reply, {
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
    async (request: Parameters<typeof assertJsonType>[0], body: Buffer) => {
      assertJsonType(request);
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

/** What came by the framework's routes. */
async function answerRouted(
  deps: AppDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  asks: Generation | StoredResponse,
): Promise<void> {
  const { id, key, headers, receivedAt, url } = request;
  const client = new Client(reply.raw, new AnswerHeaders(), () => reply.hijack());
  const endpoint = asks.kind === 'generation' ? endpointOf(asks.operation) : 'stored_responses';
  const observed = observedOf(deps, request, endpoint);
  request.observed = observed;
  try {
    const inference = { id, key, headers, query: splitUrl(url).query, receivedAt, asks, observed };
    await answer(deps, inference, wireOf(request), client);
    deps.observer.answered(observed, reply.raw.statusCode);
  } catch (error) {
    const { list } = client.headers;
    for (let at = 0; at < list.length; at += 2) reply.header(list[at] ?? '', list[at + 1]);
    throw error;
  }
}

/** What this service answers by itself. */
async function observing<Answer>(
  deps: AppDeps,
  request: FastifyRequest,
  endpoint: Endpoint,
  work: () => Answer | Promise<Answer>,
): Promise<Answer> {
  const observed = observedOf(deps, request, endpoint);
  request.observed = observed;
  const answer = await work();
  observed.outcome = 'success';
  deps.observer.answered(observed, 200);
  return answer;
}

function observedOf({ observer }: AppDeps, request: FastifyRequest, endpoint: Endpoint): Observed {
  const { id, headers, key, receivedAt } = request;
  // What has no route, and what is refused before its key is looked at, has neither.
  const begun = { id, endpoint, receivedAt: receivedAt || performance.now(), key: key ?? undefined };
  return observer.begin(begun, headers);
}
