import { totalInputTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Metrics } from '@weighbridge/runtime';
import type { Work } from '../pipeline/outgoing.ts';
import type { AttemptEnd } from '../pipeline/usageEvent.ts';
import { createAttemptMetrics } from './attemptMetrics.ts';
import type { Observed } from './observed.ts';
import { outcomeOfAnswer, outcomeOfError, type RequestOutcome } from './outcomes.ts';
import { createRequestMetrics } from './requestMetrics.ts';

/** Watches requests. Each is told of its end once, whatever becomes of it. */
export interface Observer {
  /** A model's attempt is settled. */
  attempted(observed: Observed, work: Work, end: AttemptEnd): void;
  /** It was answered, with this status. */
  answered(observed: Observed, status: number): void;
  /** Its caller is told of this error. */
  failed(observed: Observed, error: unknown): void;
}

export interface ObserverDeps {
  readonly metrics: Metrics;
}

export function createObserver({ metrics }: ObserverDeps): Observer {
  const countRequest = createRequestMetrics(metrics);
  const countAttempt = createAttemptMetrics(metrics);
  const end = (observed: Observed, outcome: RequestOutcome): void => {
    countRequest(observed, outcome, performance.now());
  };
  return {
    attempted(observed, work, end) {
      note(observed, work, end);
      countAttempt(observed, work, end, performance.now());
    },
    answered(observed, status) {
      const { outcome, last } = observed;
      // Where nothing was tried and nothing went wrong, nobody waited.
      end(observed, outcome ?? (last ? outcomeOfAnswer(last, status) : 'client_gone'));
    },
    failed(observed, error) {
      if (error instanceof AppError) observed.errorCode = error.code;
      end(observed, outcomeOfError(error));
    },
  };
}

function note(observed: Observed, { model, connector }: Work, end: AttemptEnd): void {
  observed.attempts++;
  observed.last = end;
  observed.model = model.id;
  observed.connectorId = connector.id;
  observed.costNanoUsd += end.costNanoUsd;
  observed.inputTokens += totalInputTokens(end.usage);
  observed.outputTokens += end.usage.outputTokens;
  observed.firstChunkAt = observed.streamed ? end.firstByteAt : undefined;
}
