import type { IncomingHttpHeaders } from 'node:http';
import { totalInputTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Metrics, Tracing } from '@weighbridge/runtime';
import type { AttemptEnd, ModelRequest } from './attempt.ts';
import { createAttemptMetrics } from './attemptMetrics.ts';
import { type ContentOptions, createContentCapture } from './contentCapture.ts';
import { outcomeOfError, outcomeOfResponse, type RequestOutcome } from './outcomes.ts';
import { createRequestLog, type RequestLogDeps } from './requestLog.ts';
import { createRequestMetrics } from './requestMetrics.ts';
import { observe, type RequestObservation } from './requestObservation.ts';
import { traceRequest } from './requestTrace.ts';

/** Watches requests. Each is told of its end once, whatever becomes of it. */
export interface Observer {
  /** A request has come, with these headers. */
  begin(request: BegunRequest, headers: IncomingHttpHeaders): RequestObservation;
  /** A model's attempt is settled; `output` is what it wrote, where that is known. */
  attempted(
    observed: RequestObservation,
    modelRequest: ModelRequest,
    end: AttemptEnd,
    output?: () => string,
  ): void;
  /** It was answered, with this status. */
  answered(observed: RequestObservation, status: number): void;
  /** Its caller is told of this error, by this status. */
  failed(observed: RequestObservation, error: unknown, status: number): void;
}

type BegunRequest = Pick<RequestObservation, 'id' | 'endpoint' | 'receivedAt' | 'key'>;

export interface ObserverDeps {
  readonly metrics: Metrics;
  readonly log: Omit<RequestLogDeps, 'random'>;
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined;
  /** Undefined: traces say nothing of prompts and answers. */
  readonly content?: ContentOptions | undefined;
}

export function createObserver({ metrics, log, tracing, content }: ObserverDeps): Observer {
  const capture = content && createContentCapture(content);
  const countRequest = createRequestMetrics(metrics);
  const countAttempt = createAttemptMetrics(metrics);
  const logRequest = createRequestLog({ ...log, random: Math.random });
  const end = (observed: RequestObservation, status: number, outcome: RequestOutcome): void => {
    const endedAt = performance.now();
    observed.status = status;
    countRequest(observed, outcome, endedAt);
    logRequest(observed, outcome, endedAt);
    observed.trace?.ended(observed, outcome);
  };
  return {
    begin(request, headers) {
      const observed = observe(request);
      if (tracing) observed.trace = traceRequest({ tracing, capture }, observed, headers);
      return observed;
    },
    attempted(observed, modelRequest, end, output) {
      note(observed, modelRequest, end);
      countAttempt(observed, modelRequest, end, performance.now());
      observed.trace?.attemptEnded(end, output);
    },
    answered(observed, status) {
      const { outcome, last } = observed;
      // Where nothing was tried and nothing went wrong, nobody waited.
      end(observed, status, outcome ?? (last ? outcomeOfResponse(last, status) : 'client_gone'));
    },
    failed(observed, error, status) {
      if (error instanceof AppError) observed.errorCode = error.code;
      end(observed, status, outcomeOfError(error));
    },
  };
}

function note(observed: RequestObservation, { model, connector }: ModelRequest, end: AttemptEnd): void {
  observed.attempts++;
  observed.last = end;
  observed.model = model.id;
  observed.connectorId = connector.id;
  observed.costNanoUsd += end.costNanoUsd;
  observed.inputTokens += totalInputTokens(end.usage);
  observed.outputTokens += end.usage.outputTokens;
  observed.firstChunkAt = observed.streamed ? end.firstByteAt : undefined;
}
