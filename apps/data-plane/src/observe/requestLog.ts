import type { Logger } from '@weighbridge/runtime';
import type { RequestOutcome } from './outcomes.ts';
import { policyOf, type RequestObservation } from './requestObservation.ts';

export interface RequestLogDeps {
  readonly logger: Logger;
  /** The share of successful requests that is logged, from 0 to 1. */
  readonly successRatio: number;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** Clients can cause errors without limit. */
const MAX_LINES_PER_SECOND = 100;
/** Of one key, or of all requests without one: no caller hides the lines of others. */
const MAX_LINES_PER_CALLER = 20;

const SKIPPED = `skipped request log lines; the limit is ${MAX_LINES_PER_SECOND} a second, ${MAX_LINES_PER_CALLER} for one key`;

const LEVELS: Readonly<Record<RequestOutcome, 'info' | 'warn' | 'error'>> = {
  success: 'info',
  cache_hit: 'info',
  vendor_refused: 'info',
  vendor_error: 'warn',
  interrupted: 'warn',
  client_gone: 'info',
  unauthorized: 'info',
  budget: 'info',
  rate_limit: 'info',
  invalid: 'info',
  unavailable: 'warn',
  fault: 'error',
};

/**
 * Logs each failed request, and a sample of the successful ones. A line contains only values made by this service or its
 * operators, never text from a client or a vendor.
 */
export function createRequestLog({
  logger,
  successRatio,
  random,
}: RequestLogDeps): (observed: RequestObservation, outcome: RequestOutcome, endedAt: number) => void {
  let secondEndsAt = 0;
  let lines = 0;
  let skipped = 0;
  /** The lines of each caller in this second: as many callers as lines at most. */
  const linesOfCaller = new Map<string, number>();

  /** Whether this second's limits allow another line. */
  function mayLog(nowMs: number, keyId = ''): boolean {
    if (nowMs >= secondEndsAt) {
      secondEndsAt = nowMs + 1_000;
      if (skipped > 0) logger.warn({ skipped }, SKIPPED);
      lines = 0;
      skipped = 0;
      linesOfCaller.clear();
    }
    const ofCaller = linesOfCaller.get(keyId) ?? 0;
    if (lines === MAX_LINES_PER_SECOND || ofCaller === MAX_LINES_PER_CALLER) {
      skipped++;
      return false;
    }
    lines++;
    linesOfCaller.set(keyId, ofCaller + 1);
    return true;
  }

  return (observed, outcome, endedAt) => {
    const isGood = outcome === 'success' || outcome === 'cache_hit';
    if (isGood && random() >= successRatio) return;
    const level = LEVELS[outcome];
    if (!logger.isLevelEnabled(level) || !mayLog(endedAt, observed.key?.id)) return;
    logger[level](lineOf(observed, outcome, endedAt), 'request');
  };
}

function lineOf(observed: RequestObservation, outcome: RequestOutcome, endedAt: number): object {
  const { key, overheadMs, firstChunkAt, receivedAt, errorCode } = observed;
  return {
    requestId: observed.id,
    endpoint: observed.endpoint,
    ...(observed.trace?.traceId !== undefined && { traceId: observed.trace.traceId }),
    outcome,
    status: observed.status,
    ...(errorCode !== '' && { code: errorCode }),
    ...(key && { keyId: key.id, policyId: policyOf(observed) }),
    ...(observed.model !== '' && { model: observed.model }),
    ...(observed.connectorId !== '' && { connectorId: observed.connectorId }),
    streamed: observed.streamed,
    attempts: observed.attempts,
    durationMs: Math.round(endedAt - receivedAt),
    ...(overheadMs !== undefined && { overheadMs: Number(overheadMs.toFixed(3)) }),
    ...(firstChunkAt !== undefined && { firstChunkMs: Math.round(firstChunkAt - receivedAt) }),
    inputTokens: observed.inputTokens,
    outputTokens: observed.outputTokens,
    costNanoUsd: observed.costNanoUsd.toString(),
  };
}
