import type { IncomingHttpHeaders } from 'node:http';
import { Outcome } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { type AnswerFacts, noFacts } from '../answer/answerFormat.ts';
import type { RoutableConnector } from '../control/routingTable.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import {
  isRedirect,
  redirectError,
  type UpstreamAnswer,
  type Upstreams,
  upstreamError,
  wasNeverSent,
} from '../upstream/upstreams.ts';
import type { Plan } from './plan.ts';

/** A vendor began to answer. Times are monotonic, in milliseconds. */
export interface Forwarded {
  readonly connector: RoutableConnector;
  readonly answer: UpstreamAnswer;
  readonly dispatchedAt: number;
  readonly answeredAt: number;
}

/** One try at one connector, when it is over. */
export interface EndedTry {
  readonly connector: RoutableConnector;
  readonly dispatchedAt: number;
  readonly outcome: Outcome;
  /** 0 where the vendor gave none. */
  readonly status: number;
  readonly facts: AnswerFacts;
  /** Monotonic, in milliseconds; undefined where not a byte came. */
  readonly firstByteAt: number | undefined;
  /** What the model wrote, and how much longer the whole of it was: for counting where the vendor did not. */
  readonly output: () => { readonly text: string; readonly ratio: number };
}

/**
 * Tries connectors in their order until one answers for good. A try that failed is settled before anything else
 * happens. Rejects with what the last one failed of.
 */
export async function forward(
  upstreams: Upstreams,
  plan: Plan,
  request: { readonly headers: IncomingHttpHeaders; readonly query: string },
  options: { readonly signal: AbortSignal; readonly settle: (ended: EndedTry) => Promise<unknown> },
): Promise<Forwarded> {
  const { operation, connectors, method, path, body, hideUsage } = plan;
  const { signal } = options;
  for (const [at, connector] of connectors.entries()) {
    const dispatchedAt = performance.now();
    const answer = await upstreams
      .send(connector, {
        method,
        path: path + request.query,
        headers: upstreamHeaders(request.headers, {
          wire: operation.wire,
          connector,
          plain: hideUsage,
          hasBody: body !== undefined,
        }),
        body,
        signal,
      })
      .catch(async (error) => {
        // Nothing was sent where this service itself held it back. The seam for retries and fallbacks: until there are
        // any, a failure is the answer.
        if (!(error instanceof AppError) || error === signal.reason) {
          await options.settle({ ...NO_ANSWER, connector, dispatchedAt, outcome: outcomeOf(error, signal) });
        }
        throw upstreamError(error, connector.provider);
      });
    if (isRedirect(answer)) {
      await answer.body.dump();
      const { status } = answer;
      const outcome = Outcome.UPSTREAM_ERROR;
      await options.settle({ ...NO_ANSWER, connector, dispatchedAt, outcome, status });
      throw redirectError(connector.provider);
    }
    const isLast = at === connectors.length - 1;
    if (isLast || !isElsewhere(plan, answer)) {
      return { connector, answer, dispatchedAt, answeredAt: performance.now() };
    }
    await answer.body.dump();
  }
  throw new Error('the last connector answers or fails');
}

/** Nobody knows which account keeps the response, and this one does not. */
function isElsewhere(plan: Plan, answer: UpstreamAnswer): boolean {
  return plan.work === undefined && answer.status === 404;
}

function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  // Where the service ends, the reason is an error for the caller, who is still there.
  if (signal.aborted) return error instanceof AppError ? Outcome.INTERRUPTED : Outcome.CLIENT_GONE;
  return wasNeverSent(error) ? Outcome.UPSTREAM_UNREACHABLE : Outcome.INTERRUPTED;
}

const NO_ANSWER = {
  status: 0,
  facts: noFacts(),
  firstByteAt: undefined,
  output: () => ({ text: '', ratio: 1 }),
};
