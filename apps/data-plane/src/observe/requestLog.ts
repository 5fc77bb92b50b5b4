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

  /** Whether this second's limit allows another line. */
  function mayLog(nowMs: number): boolean {
    if (nowMs >= secondEndsAt) {
      secondEndsAt = nowMs + 1_000;
      lines = 0;
      if (skipped > 0) logger.warn({ skipped }, 'skipped request log lines; the limit is 100 a second');
      skipped = 0;
    }
    if (lines++ < MAX_LINES_PER_SECOND) return true;
    skipped++;
    return false;
  }

  return (observed, outcome, endedAt) => {
    const isGood = outcome === 'success' || outcome === 'cache_hit';
    if (isGood && random() >= successRatio) return;
    const level = LEVELS[outcome];
    if (!logger.isLevelEnabled(level) || !mayLog(endedAt)) return;
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
