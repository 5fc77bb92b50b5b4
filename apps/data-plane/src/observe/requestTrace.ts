import type { IncomingHttpHeaders } from 'node:http';
import { totalInputTokens } from '@weighbridge/domain';
import type { SpanAttributes, TracedSpan, Tracing } from '@weighbridge/runtime';
import type { AttemptEnd, OutcomeAndStatus } from '@weighbridge/usage';
import type { Operation } from '../formats/operation.ts';
import type { ContentCapture } from './contentCapture.ts';
import { type Endpoint, genAiOperation, genAiProvider } from './endpoints.ts';
import type { ObservedAttempt } from './observedAttempt.ts';
import { attemptOutcome, type RequestOutcome } from './outcomes.ts';
import { policyOf, type RequestObservation, type RequestTrace } from './requestObservation.ts';

/** Undefined if a path has no route: it may contain anything, so it is not exported. */
const ROUTES: Readonly<Record<Endpoint, string | undefined>> = {
  chat_completions: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  input_tokens: '/v1/responses/input_tokens',
  compact: '/v1/responses/compact',
  messages: '/v1/messages',
  count_tokens: '/v1/messages/count_tokens',
  embeddings: '/v1/embeddings',
  generate_content: '/v1beta/models/{model}:generateContent',
  embed_content: '/v1beta/models/{model}:embedContent',
  stored_responses: '/v1/responses/{id}',
  models: '/v1/models',
  feedback: '/v1/feedback',
  other: undefined,
};
/** Outcomes that do not mark the span as failed. */
const NO_FAILURE: ReadonlySet<RequestOutcome> = new Set(['success', 'cache_hit', 'client_gone']);
const MAX_RESPONSE_ID_LENGTH = 256;

export interface RequestTraceDeps {
  readonly tracing: Tracing;
  /** Undefined: prompts and responses are not captured. */
  readonly capture: ContentCapture | undefined;
}

/** Begins the span of a request, as a child of the client's span. */
export function traceRequest(
  { tracing, capture }: RequestTraceDeps,
  { id, endpoint }: Pick<RequestObservation, 'id' | 'endpoint'>,
  headers: IncomingHttpHeaders,
): RequestTrace {
  const route = ROUTES[endpoint];
  const span = tracing.begin(route ?? endpoint, {
    kind: 'server',
    parent: headers,
    attributes: { 'http.route': route, 'weighbridge.request.id': id },
  });
  let attempt: TracedSpan | undefined;
  let attempts = 0;
  const endAttempt = (errorType: string | undefined): void => {
    attempt?.end(errorType);
    attempt = undefined;
  };
  return {
    traceId: span.isSampled ? span.traceId : undefined,
    attempt(operation, prepared) {
      // An unrecorded free attempt has no `attemptEnded`.
      endAttempt(undefined);
      attempts++;
      const name = prepared.modelRequest
        ? `${genAiOperation(operation)} ${prepared.modelRequest.model.id}`
        : (route ?? endpoint);
      attempt = tracing.begin(name, { kind: 'client', parent: span });
      if (attempt.isSampled) {
        attempt.set(attributesOf(operation, prepared, attempts));
        const { body } = prepared;
        if (capture && body && operation.isBilled) attempt.set(capture.input(body));
      }
      return attempt.headers;
    },
    attemptEnded(end, output) {
      if (!attempt) return;
      const outcome = attemptOutcome(end);
      if (attempt.isSampled) {
        attempt.set(attributesOfEnd(end));
        // An error is not model output, and may repeat the vendor's credential.
        if (capture && output && end.status < 300) attempt.set(capture.output(output()));
      }
      endAttempt(outcome === 'success' ? undefined : outcome);
    },
    ended(observed, outcome) {
      endAttempt(undefined);
      if (span.isSampled) span.set(attributesOfRequest(observed, outcome));
      span.end(NO_FAILURE.has(outcome) ? undefined : outcome);
    },
  };
}

function attributesOf(
  operation: Operation,
  { connector, modelRequest }: ObservedAttempt,
  attempt: number,
): SpanAttributes {
  const { hostname, port, protocol } = new URL(connector.baseUrl);
  return {
    'server.address': hostname,
    'server.port': Number(port) || (protocol === 'https:' ? 443 : 80),
    'weighbridge.connector.id': connector.id,
    'weighbridge.attempt': attempt,
    ...(modelRequest && {
      'gen_ai.operation.name': genAiOperation(operation),
      'gen_ai.provider.name': genAiProvider(connector.provider),
      'gen_ai.request.model': modelRequest.model.id,
      'gen_ai.request.stream': modelRequest.generation.stream,
      'gen_ai.request.max_tokens': modelRequest.generation.output?.maxTokens,
    }),
  };
}

function attributesOfEnd(end: OutcomeAndStatus & Partial<AttemptEnd>): SpanAttributes {
  const { status, usage, costNanoUsd, estimated, dispatchedAt, firstByteAt, responseId } = end;
  return {
    ...(status > 0 && { 'http.response.status_code': status }),
    ...(responseId && { 'gen_ai.response.id': responseId.slice(0, MAX_RESPONSE_ID_LENGTH) }),
    ...(firstByteAt !== undefined &&
      dispatchedAt !== undefined && {
        'gen_ai.response.time_to_first_chunk': (firstByteAt - dispatchedAt) / 1_000,
      }),
    ...(usage && {
      'gen_ai.usage.input_tokens': totalInputTokens(usage),
      'gen_ai.usage.output_tokens': usage.outputTokens,
      'gen_ai.usage.cache_read.input_tokens': usage.cacheReadTokens,
      'gen_ai.usage.cache_creation.input_tokens': usage.cacheWriteTokens + usage.cacheWrite1hTokens,
    }),
    ...(costNanoUsd !== undefined && {
      // In dollars, as Langfuse and others read it. Only here: on the request's span too, they would add it up twice.
      'gen_ai.usage.cost': Number(costNanoUsd) / 1e9,
      'weighbridge.cost.nano_usd': Number(costNanoUsd),
      'weighbridge.cost.estimated': estimated ?? false,
    }),
  };
}

function attributesOfRequest(observed: RequestObservation, outcome: RequestOutcome): SpanAttributes {
  const { key, model, errorCode, status } = observed;
  return {
    'http.response.status_code': status,
    'weighbridge.outcome': outcome,
    'weighbridge.attempts': observed.attempts,
    'weighbridge.overhead_ms': observed.overheadMs,
    'weighbridge.cost.nano_usd': Number(observed.costNanoUsd),
    ...(model !== '' && { 'weighbridge.model': model }),
    ...(errorCode !== '' && { 'weighbridge.error.code': errorCode }),
    ...(key && { 'weighbridge.key.id': key.id, 'weighbridge.policy.id': policyOf(observed) }),
  };
}
