import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { parseAttribution } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { CountTokens } from '../answer/countTokens.ts';
import type { HoldBudget } from '../answer/heldAnswer.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutingTable } from '../control/routingTable.ts';
import { callerHeaders } from '../upstream/headers.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import type { Attempts } from './attempts.ts';
import { Caller, type DrainCap } from './caller.ts';
import { chargeFor } from './charge.ts';
import { requestIdHeaders } from './failure.ts';
import { type EndedTry, type Forwarded, forward } from './forward.ts';
import {
  type Generation,
  type Plan,
  type PlanDeps,
  planGeneration,
  planStored,
  type StoredResponse,
} from './plan.ts';
import { relayAnswer } from './relay.ts';
import { type SettleDeps, settle } from './settle.ts';

export interface ServeDeps extends SettleDeps, PlanDeps {
  readonly table: () => RoutingTable | undefined;
  readonly upstreams: Upstreams;
  readonly countTokens: CountTokens;
  readonly holdBudget: HoldBudget;
  readonly drainCap: DrainCap;
  readonly attempts: Attempts;
}

/** A request whose key is known and whose body has arrived. */
export interface InferenceRequest {
  readonly id: string;
  readonly key: ResolvedKey;
  readonly headers: IncomingHttpHeaders;
  /** With the question mark; empty where there is none. */
  readonly query: string;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
  readonly asks: Generation | StoredResponse;
}

/** The caller's side. Until it is taken, an error can still be told by a status. */
export interface Client {
  readonly response: ServerResponse;
  readonly take: () => void;
}

/**
 * Serves one inference request, whatever its route, from admission to settlement. Rejects while the caller can still be
 * told by a status; once it has taken the client's side, whatever happens is told in the answer. An attempt is settled
 * once in any case.
 */
export async function serve(deps: ServeDeps, request: InferenceRequest, client: Client): Promise<void> {
  const { key, asks } = request;
  const table = requireTable(deps);

  // admit, route
  const plan =
    asks.kind === 'generation'
      ? await planGeneration(deps, key, asks, table)
      : await planStored(deps, key, asks, table);

  const admittedAtMs = deps.now().getTime();
  const settleTry = (ended: EndedTry) => charge(deps, request, plan, admittedAtMs, ended);
  const caller = new Caller(client.response, deps.drainCap);
  deps.attempts.begin(caller);
  try {
    // Nobody pays for what nobody waits for: nothing was sent yet.
    if (caller.hasLeft) return client.take();
    caller.giveUp.throwIfAborted();
    // forward
    const forwarded = await forward(deps.upstreams, plan, request, {
      signal: caller.giveUp,
      settle: settleTry,
    });

    // settle: by the relay, once it knows what was used and before the caller sees the end.
    client.take();
    await relayAnswer({
      ...forwarded,
      plan,
      caller,
      requestId: request.id,
      headers: answerHeaders(request, plan, forwarded),
      budget: deps.holdBudget,
      record: plan.work?.call.isStored
        ? (responseId) => deps.owners.record({ responseId, connectorId: forwarded.connector.id, key })
        : undefined,
      settle: settleTry,
    });
  } finally {
    caller.release();
    deps.attempts.end(caller);
  }
}

/** Settles a try that a vendor charges for; returns its cost, undefined where there was nothing to settle. */
async function charge(
  deps: ServeDeps,
  { id, key, headers }: InferenceRequest,
  plan: Plan,
  admittedAtMs: number,
  ended: EndedTry,
): Promise<bigint | undefined> {
  const { operation, work } = plan;
  if (!operation.isBilled || !work) return undefined;
  const charged = await chargeFor(ended, plan, deps.countTokens);
  return settle(
    deps,
    {
      requestId: id,
      key,
      attribution: parseAttribution(headers, key.attribution),
      modelRequested: work.call.model,
      model: work.model,
      streamed: work.call.stream,
      admittedAtMs,
    },
    ended,
    charged,
  );
}

function answerHeaders(
  { id, receivedAt }: InferenceRequest,
  { operation, work }: Plan,
  { answer, dispatchedAt, answeredAt }: Forwarded,
): Record<string, string | string[]> {
  const overheadMs = performance.now() - receivedAt - (answeredAt - dispatchedAt);
  return {
    ...callerHeaders(answer.headers),
    ...requestIdHeaders(operation.wire, id),
    ...(work && { 'x-svc-model': work.model.id, 'x-svc-cache': 'bypass' }),
    'x-svc-overhead-ms': overheadMs.toFixed(3),
  };
}

/** What may be routed to; 503 as long as nobody said. */
export function requireTable(deps: Pick<ServeDeps, 'table'>): RoutingTable {
  const message = 'This proxy has not heard from its control plane yet. Try again.';
  return deps.table() ?? raise(new AppError('unavailable', 'no_snapshot', message));
}
