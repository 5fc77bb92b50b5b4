import { assertBodyFits } from '@weighbridge/runtime';
import type { ResolvedKey } from '@weighbridge/state';
import { ClientConnection } from '../attempt/clientConnection.ts';
import { withModel } from '../formats/generationRequest.ts';
import type { Operation } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { StoredResponseAction } from '../request/planRequest.ts';
import type { Action } from '../request/requestContext.ts';
import { runRequest } from '../request/runRequest.ts';
import { HeldMemory } from '../shared/memoryBudget.ts';
import type { Exchange, Serve, ServerDeps } from './exchange.ts';
import { geminiTarget } from './geminiTarget.ts';
import { receiveBody } from './receiveBody.ts';
import { withoutApiVersion } from './requestUrl.ts';

const NO_BODY = new RequestBody([]);

/** The body names the model. */
export function serveOperation(operation: Operation): Serve {
  return (deps, exchange) => run(deps, exchange, (body) => ({ kind: 'generation', operation, body }));
}

/** Of Azure's clients: the deployment is the model, whatever the body says. */
export function serveDeployment(operation: Operation): Serve {
  return (deps, exchange) =>
    run(deps, exchange, (body) => ({ kind: 'generation', operation, body: withModel(body, exchange.name) }));
}

/** The path names the model, and says whether the response is a stream. */
export function serveGemini(operation: Operation, isStream: boolean): Serve {
  return (deps, exchange) =>
    run(deps, exchange, (body) => {
      const gemini = geminiTarget(operation, isStream, exchange);
      return { kind: 'generation', operation, body, gemini };
    });
}

export function serveStored(method: StoredResponseAction['method'], rest: string): Serve {
  return (deps, exchange) =>
    run(
      deps,
      exchange,
      () => ({ kind: 'stored_response', method, responseId: exchange.name, rest }),
      method !== 'GET',
    );
}

/** Runs a request. `toAction`: what it asks for with this body; may throw. */
function run(
  deps: ServerDeps,
  { id, dialect, endpoint, request, response, headers, query }: Exchange,
  toAction: (body: RequestBody) => Action,
  hasBody = true,
): void {
  const memory = new HeldMemory(deps.memory);
  const incoming = {
    id,
    dialect,
    endpoint,
    headers: request.headers,
    query: request.url?.startsWith('/openai/') ? withoutApiVersion(query) : query,
    receivedAt: performance.now(),
    readAction: ({ principalId }: ResolvedKey) => {
      const limits = { limitBytes: deps.bodyLimitBytes, memory, principalId };
      if (hasBody) return receiveBody(request, response, limits, toAction);
      assertBodyFits(request.headers, limits.limitBytes);
      return toAction(NO_BODY);
    },
  };
  void runRequest(deps, incoming, new ClientConnection(response, headers, deps.drainLimits, memory));
}
