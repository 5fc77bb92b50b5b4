import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { Outcome } from '@weighbridge/contracts';
import { parseAttribution } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { type RoutingTable, upstreamNameAt } from '../control/routingTable.ts';
import { readChatRequest, upstreamBody } from '../inference/chatRequest.ts';
import { callerHeaders, upstreamHeaders } from '../upstream/headers.ts';
import { type UpstreamAnswer, type Upstreams, upstreamError, wasNeverSent } from '../upstream/upstreams.ts';
import type { UsagePublisher } from '../usage/usagePublisher.ts';
import { admit } from './admit.ts';
import { isEventStream, type Relay, relayStream, relayWhole } from './relay.ts';
import { chooseConnector } from './route.ts';
import { type Attempt, type AttemptResult, type SettleDeps, settle } from './settle.ts';

export interface ServeDeps extends SettleDeps {
  readonly table: () => RoutingTable | undefined;
  readonly usage: Pick<UsagePublisher, 'hasRoom'>;
  readonly upstreams: Upstreams;
}

/** A request whose key is known and whose body has arrived. */
export interface InferenceRequest {
  readonly id: string;
  readonly key: ResolvedKey;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** With the question mark; empty where there is none. */
  readonly query: string;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
}

/**
 * Serves one chat completion, from admission to settlement. Rejects while the caller can still be told by a status; once
 * it has taken the client's side, whatever happens is told in the answer. An attempt is settled once in any case.
 */
export async function serve(
  deps: ServeDeps,
  request: InferenceRequest,
  takeClient: () => ServerResponse,
): Promise<void> {
  // admit
  const table =
    deps.table() ?? raise(unavailable('no_snapshot', 'This proxy has not heard from its control plane yet.'));
  const call = readChatRequest(request.body);
  const model = admit(request.key, call.model, table);
  if (!deps.usage.hasRoom())
    throw unavailable('usage_backlog', 'Usage can not be recorded right now, so nothing is spent.');

  // route
  const connector = chooseConnector(model, table);

  // forward
  const body = upstreamBody(call, upstreamNameAt(model, connector));
  const attempt: Attempt = {
    requestId: request.id,
    key: request.key,
    attribution: parseAttribution(request.headers, request.key.attribution),
    modelRequested: call.model,
    model,
    connector,
    streamed: call.stream,
    requestBytes: body.length,
    admittedAtMs: deps.now().getTime(),
    dispatchedAt: performance.now(),
  };
  let answer: UpstreamAnswer;
  try {
    const headers = upstreamHeaders(request.headers, connector);
    answer = await deps.upstreams.send(connector, {
      path: `/chat/completions${request.query}`,
      headers,
      body,
    });
  } catch (error) {
    settle(deps, attempt, failedBeforeAnswer(error));
    throw upstreamError(error, model.provider);
  }

  // settle: by the relay, once it knows what was used and before the caller sees the end.
  const upstreamMs = performance.now() - attempt.dispatchedAt;
  const relay: Relay = {
    answer,
    client: takeClient(),
    provider: model.provider,
    requestId: request.id,
    headers: {
      ...callerHeaders(answer.headers),
      'x-request-id': request.id,
      'x-svc-model': model.id,
      'x-svc-cache': 'bypass',
      'x-svc-overhead-ms': (performance.now() - request.receivedAt - upstreamMs).toFixed(3),
    },
    settle: (result) => settle(deps, attempt, result),
  };
  if (isEventStream(answer.headers['content-type']))
    await relayStream(relay, { hideUsage: !call.wantsUsage });
  else await relayWhole(relay);
}

function failedBeforeAnswer(error: unknown): AttemptResult {
  const outcome = wasNeverSent(error) ? Outcome.UPSTREAM_UNREACHABLE : Outcome.INTERRUPTED;
  return {
    outcome,
    status: 0,
    usage: undefined,
    outputTokensSeen: 0,
    responseId: '',
    firstByteAt: undefined,
  };
}

function unavailable(code: string, message: string): AppError {
  return new AppError('unavailable', code, `${message} Try again.`);
}
