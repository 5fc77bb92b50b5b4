import { AppError } from '@weighbridge/errors';
import { Choice, type ChoiceDeps } from '../routing/choice.ts';
import type { ConnectorHealth } from '../upstream/health.ts';
import { isBusy, isRedirect, redirectError, upstreamError } from '../upstream/upstreams.ts';
import {
  type Answered,
  attemptAt,
  type Forwarded,
  type Sending,
  settleRefused,
  type Tried,
} from './attempt.ts';
import { GivenUp } from './givenUp.ts';
import type { GenerationPlan } from './plan.ts';
import {
  type FailureReason,
  retryAfterMs,
  type Verdict,
  verdictOnError,
  verdictOnStatus,
} from './verdict.ts';

export interface RetryLimits {
  /** Attempts beyond the first. */
  readonly maxRetries: number;
  /** From the first attempt on; what attempts took that ran into their own time-outs does not count. */
  readonly retryWithinMs: number;
}

export interface FailoverDeps extends ChoiceDeps {
  readonly health: ConnectorHealth;
  readonly retries: RetryLimits;
  readonly now: () => Date;
  /** Told of each attempt that another one stands in for, and of each connector that was passed over as busy. */
  readonly onFailover: (connectorId: string, reason: FailureReason | 'busy') => void;
}

/**
 * Tries targets until one answers for good, which is once the first byte of its answer is here: from then on nothing is
 * tried again. Where nothing is left to be tried, the caller gets the last answer, and where there was none, the last
 * failure.
 */
export async function failOver(
  deps: FailoverDeps,
  sending: Sending,
  plan: GenerationPlan,
): Promise<Forwarded> {
  const { health, retries, onFailover } = deps;
  const { caller } = sending;
  const choice = new Choice(deps, plan.targets);
  const startedAt = performance.now();
  let timedOutMs = 0;
  let upstreamMs = 0;
  let attempts = 0;
  let givenUp: GivenUp | undefined;
  let failure: unknown;
  let heldBack: unknown;

  const leftMs = () => retries.retryWithinMs - (performance.now() - startedAt - timedOutMs);
  const isOver = () => attempts > retries.maxRetries || caller.hasLeft || caller.cancellation.isCancelled;
  const choose = () => (isOver() ? undefined : choice.next(performance.now(), leftMs()));

  let next = choose();
  while (next) {
    const { target, pauseMs } = next;
    const { connector } = target;
    if (pauseMs > 0) {
      await caller.pause(pauseMs);
      if (isOver()) break;
    }
    const learnt = health.begin(connector);
    const tried = await attemptAt(sending, () => plan.prepare(target));
    if (tried.kind === 'held back') {
      learnt('unknown');
      heldBack ??= tried.error;
      if (isBusy(tried.error)) {
        onFailover(connector.id, 'busy');
        choice.exclude(connector);
      } else {
        // No budget, and no room in the spool, stands in the way of what costs nothing.
        choice.keepFree(target);
      }
      next = choose();
      continue;
    }

    attempts++;
    upstreamMs += tried.tookMs;
    caller.headers.set('x-svc-attempts', String(attempts));
    const verdict = caller.cancellation.isCancelled ? NOTHING_LEARNT : verdictOn(tried);
    learnt(verdict.result);
    if (verdict.retry === 'timeout') timedOutMs += tried.tookMs;
    if (verdict.retry === 'credential') choice.exclude(connector);
    else choice.failed(target, performance.now(), askedPauseMs(tried, deps.now()));

    next = verdict.retry && choose();
    if (next && verdict.retry) onFailover(connector.id, verdict.retry);
    if (tried.kind === 'failed') failure = upstreamError(tried.error, connector.provider);
    else if (next) {
      await settleRefused(sending, tried.answered);
      givenUp = new GivenUp(tried.answered);
      failure = refusedError(tried.answered);
    } else {
      const { outgoing, answer, dispatchedAt } = tried.answered;
      if (isRedirect(answer)) await refuseRedirect(sending, tried.answered);
      return { outgoing, answer, dispatchedAt, upstreamMs };
    }
  }
  const kept = await givenUp?.take();
  if (kept) return { ...kept, upstreamMs };
  throw failure ?? heldBack;
}

/** Rejects for an answer that is a redirect, after it was settled. */
export async function refuseRedirect(sending: Sending, answered: Answered): Promise<never> {
  answered.answer.body.destroy();
  await settleRefused(sending, answered);
  throw redirectError(answered.outgoing.connector.provider);
}

const NOTHING_LEARNT: Verdict = { retry: undefined, result: 'unknown' };

function verdictOn(tried: Exclude<Tried, { kind: 'held back' }>): Verdict {
  return tried.kind === 'failed'
    ? verdictOnError(tried.error)
    : verdictOnStatus(tried.answered.answer.status);
}

function askedPauseMs(tried: Tried, now: Date): number | undefined {
  return tried.kind === 'answered' ? retryAfterMs(tried.answered.answer.headers, now.getTime()) : undefined;
}

/** In the stead of an answer that could not be kept. */
function refusedError({ outgoing: { connector }, answer }: Answered): AppError {
  const message = `The provider ${connector.provider} answered with the status ${answer.status}. Try again.`;
  return new AppError('upstream', 'upstream_error', message);
}
