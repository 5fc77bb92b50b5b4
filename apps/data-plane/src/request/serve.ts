import type { IncomingHttpHeaders } from 'node:http';
import { balancedEstimate, parseAttribution } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import { type AnswerHeaders, headerText } from '../attempt/answerHeaders.ts';
import type { Forwarded } from '../attempt/attempt.ts';
import {
  type AttemptLog,
  type AttemptLogDeps,
  openAttemptLog,
  unbilledAttempts,
} from '../attempt/attemptLog.ts';
import { Caller, type DrainCap } from '../attempt/caller.ts';
import type { Client } from '../attempt/client.ts';
import { expectedOutput } from '../attempt/expectedOutput.ts';
import type { FailoverDeps } from '../attempt/failover.ts';
import { addRequestId, tellFault } from '../attempt/failure.ts';
import { forward } from '../attempt/forward.ts';
import type { GenerationPlan, Plan } from '../attempt/plan.ts';
import { relayAnswer } from '../attempt/relayAnswer.ts';
import type { Attempted } from '../attempt/usageEvent.ts';
import type { LeaseBook } from '../budget/leaseBook.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutingTable } from '../control/routingTable.ts';
import type { HoldBudget } from '../formats/heldAnswer.ts';
import { STORED_RESPONSE } from '../formats/operation.ts';
import type { Observed } from '../observe/observed.ts';
import type { Observer } from '../observe/observer.ts';
import type { RateBook, RateReservation } from '../rates/rateBook.ts';
import { isRateHeader, setRateHeaders } from '../rates/rateHeaders.ts';
import type { UsageLog } from '../record/usageLog.ts';
import { addCallerHeaders } from '../upstream/headers.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { answerFromCache } from './answerFromCache.ts';
import type { Attempts } from './attempts.ts';
import { type Caching, cachingOf } from './caching.ts';
import {
  type Generation,
  type PlanDeps,
  planGeneration,
  planStored,
  type StoredResponse,
} from './planRequest.ts';

export interface ServeDeps extends Omit<AttemptLogDeps, 'budget'>, Omit<PlanDeps, 'budget'>, FailoverDeps {
  readonly usage: UsageLog;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle' | 'headroom'>;
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

/**
 * Serves one inference request, whatever its route, from admission to settlement. Rejects while the caller can still be
 * told by a status; once it has taken the client's side, whatever happens is told in the answer. An attempt is settled
 * once in any case.
 */
export async function serve(deps: ServeDeps, request: InferenceRequest, client: Client): Promise<void> {
  try {
    await serveClient(deps, request, client);
  } catch (error) {
    if (!client.isTaken) throw error;
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
  let plan: Plan;
  try {
    const planned =
      asks.kind === 'generation'
        ? planGeneration(deps, request, asks, table)
        : planStored(deps, key, asks, table);
    plan = planned instanceof Promise ? await planned : planned;
  } catch (refusal) {
    // Who is refused learns of its limits too.
    tellOfRates(deps.rates, key, client);
    throw refusal;
  }

  notePlan(request.observed, plan);
  const caching = openCache(deps, request, plan, client);
  if (caching && (await isAnswered(deps, request, caching, client))) return;

  const counting = admitByRates(deps, request, plan, client);
  const counted = counting instanceof Promise ? await counting : counting;
  const attempts = attemptLog(deps, request, plan);
  const caller = new Caller(client, deps.drainCap);
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
    const { outgoing, answer, dispatchedAt } = forwarded;
    const { work, connector } = outgoing;
    await relayAnswer({
      outgoing,
      answer,
      dispatchedAt,
      plan,
      kept: work && caching?.keep(work),
      caller,
      requestId: request.id,
      headers: answerHeaders(request, plan, forwarded, client.headers),
      budget: deps.holdBudget,
      record: work?.call.isStored
        ? (responseId) => deps.owners.record({ responseId, connectorId: connector.id, key })
        : undefined,
      attempts,
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
  { headers }: Client,
): Caching | undefined {
  if (plan.kind !== 'generation') return undefined;
  const caching = cachingOf(cache, request, plan);
  headers.set('x-svc-cache', caching ? 'miss' : 'bypass');
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
function admitByRates(
  deps: ServeDeps,
  { key }: InferenceRequest,
  plan: Plan,
  client: Client,
): RateReservation | undefined | Promise<RateReservation> {
  if (plan.kind !== 'generation' || key.rates.length === 0) return undefined;
  const { operation, call, targets } = plan;
  const [{ model }] = targets;
  const size = {
    inputBytes: operation.isBilled ? call.body.length : 0,
    output: expectedOutput(call, deps.usualTokens(model.id)),
  };
  const { inputTokens, outputTokens } = balancedEstimate(size, model.price);
  return countIn(deps, key, client, inputTokens + outputTokens);
}

/** Tells the caller of its limits in any case. */
function countIn(
  { rates }: ServeDeps,
  key: ResolvedKey,
  client: Client,
  tokens: number,
): RateReservation | Promise<RateReservation> {
  const tell = () => tellOfRates(rates, key, client);
  let counted: RateReservation | Promise<RateReservation> | undefined;
  try {
    counted = rates.admit(key.rates, tokens);
  } finally {
    if (!(counted instanceof Promise)) tell();
  }
  return counted instanceof Promise ? counted.finally(tell) : counted;
}

function tellOfRates(rates: ServeDeps['rates'], key: ResolvedKey, { headers }: Client): void {
  const figures = rates.figures(key.rates);
  if (figures) setRateHeaders(headers, figures, rates.clockMs());
}

function attemptLog(deps: ServeDeps, request: InferenceRequest, plan: Plan): AttemptLog {
  const { observed } = request;
  if (plan.kind === 'generation' && plan.operation.isBilled) {
    return openAttemptLog(deps, attemptedOf(deps, request, plan), (work, end, output) =>
      deps.observer.attempted(observed, work, end, output),
    );
  }
  return unbilledAttempts((ended) => {
    observed.last = ended;
    observed.trace?.attemptEnded(ended);
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

/** Of this service's own, and of the vendor's. */
function answerHeaders(
  { id, receivedAt, observed }: InferenceRequest,
  { operation }: Plan,
  { answer, outgoing, upstreamMs }: Forwarded,
  own: AnswerHeaders,
): AnswerHeaders {
  const overheadMs = performance.now() - receivedAt - upstreamMs;
  observed.overheadMs = overheadMs;
  const headers = own.copy();
  addCallerHeaders(headers.list, answer.headers, { isRated: own.list.some(isRateHeader) });
  addRequestId(headers, operation.wire, id);
  if (outgoing.work) headers.list.push('x-svc-model', headerText(outgoing.work.model.id));
  headers.list.push('x-svc-overhead-ms', overheadMs.toFixed(3));
  return headers;
}

/** What may be routed to; 503 as long as nobody said. */
export function requireTable(deps: Pick<ServeDeps, 'table'>): RoutingTable {
  const message = 'This proxy has not heard from its control plane yet. Try again.';
  return deps.table() ?? raise(new AppError('unavailable', 'no_snapshot', message));
}
