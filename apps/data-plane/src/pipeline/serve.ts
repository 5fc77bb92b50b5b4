import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { balancedEstimate, parseAttribution } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { HoldBudget } from '../answer/heldAnswer.ts';
import type { LeaseBook } from '../budget/leaseBook.ts';
import { type Caching, cachingOf } from '../cache/caching.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutingTable } from '../control/routingTable.ts';
import type { Observed } from '../observe/observed.ts';
import type { Observer } from '../observe/observer.ts';
import { STORED_RESPONSE } from '../operations/operation.ts';
import type { RateBook, RateHold } from '../rates/rateBook.ts';
import { hasRateHeaders, setRateHeaders } from '../rates/rateHeaders.ts';
import { callerHeaders } from '../upstream/headers.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import type { UsageLog } from '../usage/usageLog.ts';
import { answerFromCache } from './answerFromCache.ts';
import type { Forwarded } from './attempt.ts';
import { type AttemptLog, type AttemptLogDeps, openAttemptLog, unbilledAttempts } from './attemptLog.ts';
import type { Attempts } from './attempts.ts';
import { Caller, type DrainCap } from './caller.ts';
import { expectedOutput } from './expectedOutput.ts';
import type { FailoverDeps } from './failover.ts';
import { requestIdHeaders, tellFault } from './failure.ts';
import { forward } from './forward.ts';
import {
  type Generation,
  type GenerationPlan,
  type Plan,
  type PlanDeps,
  planGeneration,
  planStored,
  type StoredResponse,
} from './plan.ts';
import { relayAnswer } from './relay.ts';
import type { Attempted } from './usageEvent.ts';

export interface ServeDeps extends Omit<AttemptLogDeps, 'budget'>, Omit<PlanDeps, 'budget'>, FailoverDeps {
  readonly usage: UsageLog;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle' | 'room'>;
  readonly rates: Pick<RateBook, 'admit' | 'settle' | 'figures' | 'clockMs'>;
  readonly table: () => RoutingTable | undefined;
  readonly upstreams: Upstreams;
  readonly holdBudget: HoldBudget;
  readonly drainCap: DrainCap;
  readonly attempts: Attempts;
  readonly cache: ResponseCache;
  readonly observer: Pick<Observer, 'attempted'>;
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
  readonly observed: Observed;
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
  let isTaken = false;
  const take = () => {
    isTaken = true;
    client.take();
  };
  try {
    await serveClient(deps, request, { response: client.response, take });
  } catch (error) {
    if (!isTaken) throw error;
    request.observed.outcome = 'fault';
    deps.logger.error({ err: error, requestId: request.id }, 'an answer could not be passed on');
    const operation = request.asks.kind === 'generation' ? request.asks.operation : STORED_RESPONSE;
    tellFault({ caller: client, plan: { operation }, requestId: request.id }, error);
  }
}

async function serveClient(deps: ServeDeps, request: InferenceRequest, client: Client): Promise<void> {
  const { key, asks } = request;
  const table = requireTable(deps);

  // admit, route
  const plan =
    asks.kind === 'generation'
      ? await planGeneration(deps, request, asks, table).catch((refusal) => {
          tellOfRates(deps.rates, key, client);
          throw refusal;
        })
      : await planStored(deps, key, asks, table);

  notePlan(request.observed, plan);
  const caching = openCache(deps, request, plan, client);
  if (caching && (await isAnswered(deps, request, caching, client))) return;

  const counted = await admitByRates(deps, request, plan, client);
  const attempts = attemptLog(deps, request, plan);
  const caller = new Caller(client.response, deps.drainCap);
  deps.attempts.begin(caller);
  let forwarded: Forwarded | undefined;
  try {
    // Nobody pays for what nobody waits for: nothing was sent yet.
    if (caller.hasLeft) return client.take();
    caller.cancellation.throwIfCancelled();
    // forward: each attempt is written down, then sent.
    forwarded = await forward(deps, { upstreams: deps.upstreams, plan, request, caller, attempts });
    tellWhoServed(plan, forwarded);

    // settle: by the relay, once it knows what was used and before the caller sees the end.
    client.take();
    const { work, connector } = forwarded.outgoing;
    await relayAnswer({
      ...forwarded,
      plan,
      kept: work && caching?.keep(work),
      caller,
      requestId: request.id,
      headers: answerHeaders(request, plan, forwarded, { isRated: hasRateHeaders(client.response) }),
      budget: deps.holdBudget,
      record: work?.call.isStored
        ? (responseId) => deps.owners.record({ responseId, connectorId: connector.id, key })
        : undefined,
      settle: attempts.settle,
    });
  } catch (error) {
    forwarded?.answer.body.destroy();
    throw error;
  } finally {
    attempts.close();
    if (counted) deps.rates.settle(counted, attempts.usedTokens);
    caller.release();
    deps.attempts.end(caller);
  }
}

function notePlan(observed: Observed, plan: Plan): void {
  if (plan.kind !== 'generation') return;
  const [{ model, connector }] = plan.targets;
  observed.streamed = plan.call.stream;
  observed.model = model.id;
  observed.connectorId = connector.id;
}

function tellWhoServed(plan: Plan, { outgoing: { work }, answer }: Forwarded): void {
  if (plan.kind === 'generation' && work && answer.status < 300) plan.served(work);
}

/** Undefined where nothing is cached. Tells the caller what part the cache has in its answer; a hit says so itself. */
function openCache(
  { cache }: ServeDeps,
  request: InferenceRequest,
  plan: Plan,
  { response }: Client,
): Caching | undefined {
  if (plan.kind !== 'generation') return undefined;
  const caching = cachingOf(cache, request, plan);
  response.setHeader('x-svc-cache', caching ? 'miss' : 'bypass');
  return caching;
}

/** Answers from the cache, where that has an answer: to a request that counts as one, but uses no tokens. */
async function isAnswered(
  deps: ServeDeps,
  request: InferenceRequest,
  caching: Caching,
  client: Client,
): Promise<boolean> {
  const found = caching.find();
  const answer = found instanceof Promise ? await found : found;
  if (!answer) return false;
  const { key } = request;
  const counted = key.rates.length > 0 ? await countIn(deps, key, client, 0) : undefined;
  try {
    const { plan } = caching;
    request.observed.outcome = 'cache_hit';
    request.observed.model = answer.model;
    answerFromCache(deps, request, plan, client, { answer, attempted: attemptedOf(deps, request, plan) });
  } finally {
    if (counted) deps.rates.settle(counted, 0);
  }
  return true;
}

/** Counts a request in where its key has limits by the minute. */
async function admitByRates(
  deps: ServeDeps,
  { key }: InferenceRequest,
  plan: Plan,
  client: Client,
): Promise<RateHold | undefined> {
  if (plan.kind !== 'generation' || key.rates.length === 0) return undefined;
  const { operation, call, targets } = plan;
  const [{ model }] = targets;
  const size = {
    inputBytes: operation.isBilled ? call.body.length : 0,
    output: expectedOutput(call, deps.usualTokens(model.id)),
  };
  const { inputTokens, outputTokens } = balancedEstimate(size, model.price);
  return await countIn(deps, key, client, inputTokens + outputTokens);
}

/** Tells the caller of its limits in any case. */
async function countIn(
  { rates }: ServeDeps,
  key: ResolvedKey,
  client: Client,
  tokens: number,
): Promise<RateHold> {
  try {
    return await rates.admit(key.rates, tokens);
  } finally {
    tellOfRates(rates, key, client);
  }
}

function tellOfRates(rates: ServeDeps['rates'], key: ResolvedKey, { response }: Client): void {
  const figures = rates.figures(key.rates);
  if (figures && !response.headersSent) setRateHeaders(response, figures, rates.clockMs());
}

function attemptLog(deps: ServeDeps, request: InferenceRequest, plan: Plan): AttemptLog {
  const { observed } = request;
  if (plan.kind === 'generation' && plan.operation.isBilled) {
    return openAttemptLog(deps, attemptedOf(deps, request, plan), (work, end) =>
      deps.observer.attempted(observed, work, end),
    );
  }
  return unbilledAttempts((ended) => {
    observed.last = ended;
  });
}

function attemptedOf(
  { now }: ServeDeps,
  { id, key, headers }: InferenceRequest,
  { call }: GenerationPlan,
): Attempted {
  return {
    requestId: id,
    key,
    attribution: parseAttribution(headers, key.attribution),
    modelRequested: call.model,
    streamed: call.stream,
    admittedAtMs: now().getTime(),
  };
}

function answerHeaders(
  { id, receivedAt, observed }: InferenceRequest,
  { operation }: Plan,
  { answer, outgoing, upstreamMs }: Forwarded,
  { isRated }: { readonly isRated: boolean },
): Record<string, string | string[]> {
  const overheadMs = performance.now() - receivedAt - upstreamMs;
  observed.overheadMs = overheadMs;
  return {
    ...callerHeaders(answer.headers, { isRated }),
    ...requestIdHeaders(operation.wire, id),
    ...(outgoing.work && { 'x-svc-model': outgoing.work.model.id }),
    'x-svc-overhead-ms': overheadMs.toFixed(3),
  };
}

/** What may be routed to; 503 as long as nobody said. */
export function requireTable(deps: Pick<ServeDeps, 'table'>): RoutingTable {
  const message = 'This proxy has not heard from its control plane yet. Try again.';
  return deps.table() ?? raise(new AppError('unavailable', 'no_snapshot', message));
}
