import type { IncomingHttpHeaders } from 'node:http';
import { Outcome } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { noFacts } from '../formats/answerFormat.ts';
import type { Outgoing } from '../observe/attempt.ts';
import type { Observed } from '../observe/observed.ts';
import type { Cancellation } from '../upstream/cancellation.ts';
import type { UpstreamAnswer } from '../upstream/exchange.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import { type Upstreams, wasNeverSent } from '../upstream/upstreams.ts';
import type { AttemptLog } from './attemptLog.ts';
import type { Caller } from './caller.ts';
import type { Plan } from './plan.ts';

/** What is to be sent, at whichever connector. */
export interface Sending {
  readonly upstreams: Upstreams;
  readonly plan: Plan;
  readonly request: {
    readonly headers: IncomingHttpHeaders;
    readonly query: string;
    readonly observed: Pick<Observed, 'trace'>;
  };
  readonly caller: Caller;
  readonly attempts: AttemptLog;
}

/** A vendor began to answer. */
export interface Answered {
  readonly outgoing: Outgoing;
  readonly answer: UpstreamAnswer;
  /** Monotonic, in milliseconds. */
  readonly dispatchedAt: number;
}

/** The answer that the caller gets. */
export interface Forwarded extends Answered {
  /** How long its vendors were waited for, in all attempts. */
  readonly upstreamMs: number;
}

/** What an attempt came to. One that failed is settled. */
export type Tried =
  | { readonly kind: 'answered'; readonly answered: Answered; readonly tookMs: number }
  | { readonly kind: 'failed'; readonly error: unknown; readonly tookMs: number }
  /** Nothing was sent: there was no room for it, or it could not be written down. */
  | { readonly kind: 'held back'; readonly error: unknown };

/** Sends a request to one connector, and waits for the first byte of what is no error. */
export async function attemptAt(
  sending: Sending,
  prepare: () => Outgoing | Promise<Outgoing>,
): Promise<Tried> {
  const { upstreams, plan, request, caller, attempts } = sending;
  let dispatchedAt: number | undefined;
  let status = 0;
  try {
    const prepared = prepare();
    const outgoing = prepared instanceof Promise ? await prepared : prepared;
    const { connector, body } = outgoing;
    const place = upstreams.enter(connector);
    try {
      await attempts.begin(outgoing, caller);
      dispatchedAt = performance.now();
    } catch (error) {
      place.leave();
      throw error;
    }
    const { wire } = plan.operation;
    const hasBody = body !== undefined;
    const trace = request.observed.trace?.attempt(plan.operation, outgoing);
    const how = { wire, connector, plain: plan.hideUsage, hasBody, trace };
    const headers = upstreamHeaders(request.headers, how);
    const path = plan.path + request.query;
    const answer = await place.send({ method: plan.method, path, headers, body }, caller.cancellation);
    status = answer.status;
    const begun = outgoing.work && status < 300 ? answer.body.begun() : undefined;
    if (begun) await begun;
    const answeredAt = performance.now();
    const answered = { outgoing, answer, dispatchedAt: dispatchedAt ?? answeredAt };
    return { kind: 'answered', answered, tookMs: answeredAt - answered.dispatchedAt };
  } catch (error) {
    if (dispatchedAt === undefined) return { kind: 'held back', error };
    const tookMs = performance.now() - dispatchedAt;
    const outcome = outcomeOf(error, caller.cancellation);
    const neverSent = wasNeverSent(error);
    await attempts.settle({ ...NO_ANSWER, dispatchedAt, outcome, status, neverSent });
    return { kind: 'failed', error, tookMs };
  }
}

/** Settles an attempt whose answer is an error, and is not passed on as it comes. */
export async function settleRefused(
  { attempts }: Pick<Sending, 'attempts'>,
  { dispatchedAt, answer }: Answered,
): Promise<void> {
  const { status } = answer;
  const outcome = Outcome.UPSTREAM_ERROR;
  await attempts.settle({ ...NO_ANSWER, dispatchedAt, outcome, status });
}

function outcomeOf(error: unknown, { reason }: Cancellation): Outcome {
  // Where the service ends, the reason is an error for the caller, who is still there.
  if (reason) return reason instanceof AppError ? Outcome.INTERRUPTED : Outcome.CLIENT_GONE;
  return wasNeverSent(error) ? Outcome.UPSTREAM_UNREACHABLE : Outcome.INTERRUPTED;
}

const NO_ANSWER = {
  facts: noFacts(),
  firstByteAt: undefined,
  output: () => ({ text: '', ratio: 1 }),
};
