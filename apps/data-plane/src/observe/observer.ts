import type { IncomingHttpHeaders } from 'node:http';
import { totalInputTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Metrics, Tracing } from '@weighbridge/runtime';
import type { AttemptEnd } from '@weighbridge/usage';
import { createAttemptMetrics } from './attemptMetrics.ts';
import { type ContentOptions, createContentCapture } from './contentCapture.ts';
import type { ObservedModelRequest } from './observedAttempt.ts';
import { outcomeOfError, outcomeOfResponse, type RequestOutcome } from './outcomes.ts';
import type { OverheadWindow } from './overheadWindow.ts';
import { createRequestLog, type RequestLogDeps } from './requestLog.ts';
import { createRequestMetrics } from './requestMetrics.ts';
import { observe, type RequestObservation } from './requestObservation.ts';
import { traceRequest } from './requestTrace.ts';
import { createUnknownEvents } from './unknownEvents.ts';

/** Reports requests to metrics, log and traces. Each request begun ends once, by `answered` or `failed`. */
export interface Observer {
  begin(request: BegunRequest, headers: IncomingHttpHeaders): RequestObservation;
  /** A billed attempt is settled. `output`: what the model wrote, if it is known. */
  attempted(
    observed: RequestObservation,
    modelRequest: ObservedModelRequest,
    end: AttemptEnd,
    output?: () => string,
  ): void;
  /** A translated answer had events that the caller's dialect has no words for: how many of each. */
  sawUnknown(provider: string, events: ReadonlyMap<string, number>): void;
  /** The client got a response with this status. */
  answered(observed: RequestObservation, status: number): void;
  /** The client got this error, with this status. */
  failed(observed: RequestObservation, error: unknown, status: number): void;
}

type BegunRequest = Pick<RequestObservation, 'id' | 'endpoint' | 'receivedAt' | 'key'>;

export interface ObserverDeps {
  readonly metrics: Metrics;
  /** What the control plane is told of the overhead. */
  readonly overhead: Pick<OverheadWindow, 'observe'>;
  readonly log: Omit<RequestLogDeps, 'random'>;
  /** Undefined: tracing is off. */
  readonly tracing: Tracing | undefined;
  /** Undefined: prompts and responses are not captured. */
  readonly content?: ContentOptions | undefined;
}

export function createObserver({ metrics, overhead, log, tracing, content }: ObserverDeps): Observer {
  const capture = content && createContentCapture(content);
  const countRequest = createRequestMetrics(metrics, overhead);
  const countAttempt = createAttemptMetrics(metrics);
  const sawUnknown = createUnknownEvents(metrics);
  const logRequest = createRequestLog({ ...log, random: Math.random });
  const countSettled = (observed: RequestObservation): void => {
    const { settled } = observed;
    if (!settled) return;
    observed.settled = undefined;
    countAttempt(observed, settled.modelRequest, settled.end, settled.at);
  };
  const end = (observed: RequestObservation, status: number, outcome: RequestOutcome): void => {
    const endedAt = performance.now();
    observed.status = status;
    observed.isOver = true;
    countSettled(observed);
    countRequest(observed, outcome, endedAt);
    logRequest(observed, outcome, endedAt);
    observed.trace?.ended(observed, outcome);
  };
  return {
    sawUnknown,
    begin(request, headers) {
      const observed = observe(request);
      if (tracing) observed.trace = traceRequest({ tracing, capture }, observed, headers);
      return observed;
    },
    attempted(observed, modelRequest, end, output) {
      addAttempt(observed, modelRequest, end);
      countSettled(observed);
      observed.settled = { modelRequest, end, at: performance.now() };
      if (observed.isOver) countSettled(observed);
      observed.trace?.attemptEnded(end, output);
    },
    answered(observed, status) {
      const { outcome, lastAttempt } = observed;
      // Without an attempt and without an error, the client disconnected before.
      const known = outcome ?? (lastAttempt && outcomeOfResponse(lastAttempt, status));
      end(observed, status, known ?? 'client_gone');
    },
    failed(observed, error, status) {
      if (error instanceof AppError) observed.errorCode = error.code;
      end(observed, status, outcomeOfError(error));
    },
  };
}

function addAttempt(
  observed: RequestObservation,
  { model, connector }: ObservedModelRequest,
  end: AttemptEnd,
): void {
  observed.attempts++;
  observed.lastAttempt = end;
  observed.model = model.id;
  observed.connectorId = connector.id;
  observed.costNanoUsd += end.costNanoUsd;
  observed.inputTokens += totalInputTokens(end.usage);
  observed.outputTokens += end.usage.outputTokens;
  observed.firstChunkAt = observed.streamed ? end.firstByteAt : undefined;
}
