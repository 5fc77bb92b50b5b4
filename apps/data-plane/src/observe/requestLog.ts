import type { Logger } from '@weighbridge/runtime';
import type { RequestOutcome } from './outcomes.ts';
import { policyOf, type RequestObservation } from './requestObservation.ts';

export interface RequestLogDeps {
  readonly logger: Logger;
  /** Which part of the requests that succeed is logged, from 0 to 1. */
  readonly successRatio: number;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** What callers do wrong, they may do as often as they like. */
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
 * A line for each request that fails, and for some of those that succeed. All that it says was made here or is an
 * operator's: nothing of it is a caller's or a vendor's.
 */
export function createRequestLog({
  logger,
  successRatio,
  random,
}: RequestLogDeps): (observed: RequestObservation, outcome: RequestOutcome, endedAt: number) => void {
  let secondEndsAt = 0;
  let lines = 0;
  let leftOut = 0;

  /** Whether there is room for one more in this second. */
  function hasRoom(nowMs: number): boolean {
    if (nowMs >= secondEndsAt) {
      secondEndsAt = nowMs + 1_000;
      lines = 0;
      if (leftOut > 0) logger.warn({ leftOut }, 'requests were not logged: there were too many of them');
      leftOut = 0;
    }
    if (lines++ < MAX_LINES_PER_SECOND) return true;
    leftOut++;
    return false;
  }

  return (observed, outcome, endedAt) => {
    const isGood = outcome === 'success' || outcome === 'cache_hit';
    if (isGood && random() >= successRatio) return;
    const level = LEVELS[outcome];
    if (!logger.isLevelEnabled(level) || !hasRoom(endedAt)) return;
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
