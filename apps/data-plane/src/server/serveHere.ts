import { parse } from 'node:querystring';
import { AppError, raise } from '@weighbridge/errors';
import { assertBodyFits, clientGone } from '@weighbridge/runtime';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import { authenticate } from '../request/authenticate.ts';
import { FEEDBACK_BYTES, type Feedback, readFeedback } from '../request/feedback.ts';
import { listGeminiModels, retrieveGeminiModel } from '../request/geminiModels.ts';
import { listModels, retrieveModel } from '../request/listModels.ts';
import { giveFeedback } from '../request/recordFeedback.ts';
import { respondWithError } from '../request/respondWithError.ts';
import { currentTable } from '../request/runRequest.ts';
import { HeldMemory } from '../shared/memoryBudget.ts';
import { type Answer, type Exchange, refuse, type Serve, type ServerDeps, sendAnswer } from './exchange.ts';
import { receiveBody } from './receiveBody.ts';
import { dialectOfUnserved, isModelOperation, ROUTE_NOT_SERVED, routeNotServed } from './unservedRoutes.ts';

/* What this service answers without a vendor. */

export const serveHealth: Serve = (deps, exchange) => {
  answerKeyless(deps, exchange, () => ({ status: 200, body: { status: 'ok' } }));
};

export const serveReadiness: Serve = (deps, exchange) => {
  answerKeyless(deps, exchange, () => {
    const reason = deps.notReady();
    if (reason !== undefined) return { status: 503, body: { status: 'not ready', reason } };
    const degraded = deps.degraded?.();
    return { status: 200, body: { status: 'ready', ...(degraded !== undefined && { degraded }) } };
  });
};

export const serveModels = aboutModels(({ dialect, query }, key, table) => {
  const parameters = parse(query.slice(1));
  return dialect === 'gemini'
    ? listGeminiModels(key, table, parameters)
    : listModels(key, table, dialect, parameters);
});

export const serveModel = aboutModels(({ dialect, name, request }, key, table) => {
  if (isModelOperation(name)) throw routeNotServed('GET', request);
  return dialect === 'gemini'
    ? retrieveGeminiModel(key, table, name)
    : retrieveModel(key, table, dialect, name);
});

function aboutModels(present: (exchange: Exchange, key: ResolvedKey, table: RoutingTable) => object): Serve {
  return (deps, exchange) => {
    void answer(deps, exchange, (key) => {
      assertBodyFits(exchange.request.headers, deps.bodyLimitBytes);
      return { status: 200, body: present(exchange, key, currentTable(deps)) };
    });
  };
}

export const serveFeedback: Serve = (deps, exchange) => {
  void answer(deps, exchange, async (key) => {
    const feedback = await receiveFeedback(deps, exchange, key);
    const status = await giveFeedback(deps, key, feedback);
    return { status: status === 'counted' ? 200 : 202, body: { request_id: feedback.requestId, status } };
  });
};

async function receiveFeedback(
  deps: ServerDeps,
  { request, response }: Exchange,
  { principalId }: ResolvedKey,
): Promise<Feedback> {
  const memory = new HeldMemory(deps.memory);
  try {
    const limits = { limitBytes: FEEDBACK_BYTES, memory, principalId };
    const feedback = await receiveBody(request, response, limits, (body) => readFeedback(body.toBuffer()));
    return feedback ?? raise(clientGone());
  } finally {
    memory.close();
  }
}

function answerKeyless(deps: ServerDeps, exchange: Exchange, work: () => Answer): void {
  try {
    assertBodyFits(exchange.request.headers, deps.bodyLimitBytes);
    sendAnswer(exchange, work());
  } catch (error) {
    refuse(deps, exchange, error);
  }
}

async function answer(
  deps: ServerDeps,
  exchange: Exchange,
  work: (key: ResolvedKey) => Answer | Promise<Answer>,
): Promise<void> {
  const { id, dialect, endpoint, request, query } = exchange;
  const { headers } = request;
  const begun = { id, endpoint, receivedAt: performance.now(), key: undefined };
  const observed = deps.observer.begin(begun, headers);
  try {
    const key = await authenticate(deps.keys, { headers, dialect, query }, deps.now().getTime());
    observed.key = key;
    const answered = await work(key);
    observed.outcome = 'success';
    deps.observer.answered(observed, answered.status);
    sendAnswer(exchange, answered);
  } catch (error) {
    const isUnserved = error instanceof AppError && error.code === ROUTE_NOT_SERVED;
    const shape = isUnserved ? dialectOfUnserved(request) : dialect;
    respondWithError(deps, { id, dialect: shape, headers }, observed, error, exchange);
  }
}
