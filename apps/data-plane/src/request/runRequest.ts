import { type LeaseBook, LimitError } from '@weighbridge/budget';
import { AppError, type ErrorKind, raise } from '@weighbridge/errors';
import { clientGone, type Logger } from '@weighbridge/runtime';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import type { AttemptDeps } from '../attempt/attempt.ts';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { sendInternalError } from '../attempt/errorResponse.ts';
import { type Delivered, type FailoverDeps, failOver } from '../attempt/failover.ts';
import { findStored } from '../attempt/findStored.ts';
import type { Plan } from '../attempt/plan.ts';
import { RequestAttempts } from '../attempt/requestAttempts.ts';
import type { ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import type { KeyCache } from '../control/keyCache.ts';
import { STORED_RESPONSE } from '../formats/operation.ts';
import type { Observer } from '../observe/observer.ts';
import type { MemoryBudget } from '../shared/memoryBudget.ts';
import { isOwnResponse } from '../translation/responseStore.ts';
import { authenticate } from './authenticate.ts';
import type { InFlightRequests } from './inFlightRequests.ts';
import type { NoteRefusal } from './noteRefusal.ts';
import { type PlanDeps, planGeneration } from './planRequest.ts';
import { planStored } from './planStored.ts';
import { admitByRates, admitTokens, type RateDeps, writeRateHeaders } from './rateAdmission.ts';
import { relayDelivered } from './relayDelivered.ts';
import { type RequestCaching, requestCaching } from './requestCaching.ts';
import { type IncomingRequest, type InferenceRequest, RequestContext } from './requestContext.ts';
import { respondFromCache } from './respondFromCache.ts';
import { respondWithError } from './respondWithError.ts';
import { respondWithEstimate } from './respondWithEstimate.ts';
import { respondWithStored } from './respondWithStored.ts';
import { saidElsewhere } from './saidElsewhere.ts';
import type { UnfinishedResponses } from './unfinishedResponses.ts';

export interface RunDeps
  extends Omit<AttemptDeps, 'accounts' | 'budget' | 'observer' | 'rates'>,
    Omit<PlanDeps, 'budget' | 'usage'>,
    Omit<FailoverDeps, 'rates'>,
    RateDeps {
  readonly keys: KeyCache;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle' | 'headroom'>;
  readonly table: () => RoutingTable | undefined;
  /** For what requests hold. */
  readonly memory: MemoryBudget;
  readonly inFlight: InFlightRequests;
  readonly cache: ResponseCache;
  readonly unfinished: Pick<UnfinishedResponses, 'watch' | 'tell' | 'settleNow'>;
  readonly observer: Observer;
  readonly noteRefusal: NoteRefusal;
  readonly logger: Logger;
}

/**
 * Runs one inference request from its head to its settlement: authenticate, read the body, plan, answer from the cache or count
 * against the rate limits and forward, relay and settle. Answers the client in every case; never rejects.
 *
 * Steps return a promise only if they have to wait: awaiting every step costs more than most of them do (docs/adr/0017).
 */
export async function runRequest(
  deps: RunDeps,
  incoming: IncomingRequest,
  client: ClientConnection,
): Promise<void> {
  const { id, dialect, endpoint, headers, receivedAt } = incoming;
  const observed = deps.observer.begin({ id, endpoint, receivedAt, key: undefined }, headers);
  try {
    // Before the body is read: no one uploads 32 MiB to learn that a key is wrong.
    const authenticating = authenticate(deps.keys, incoming, deps.now().getTime());
    const key = authenticating instanceof Promise ? await authenticating : authenticating;
    observed.key = key;
    const reading = incoming.readAction(key);
    const action = reading instanceof Promise ? await reading : reading;
    // The client disconnected during the upload.
    if (!action) return deps.observer.answered(observed, 0);
    const { query } = incoming;
    await serve(deps, { id, dialect, endpoint, headers, query, receivedAt, key, action, observed }, client);
    deps.observer.answered(observed, client.response.statusCode);
  } catch (error) {
    // Ignore upstream errors after the client has disconnected.
    const isLeft = client.hasDisconnected && error instanceof AppError;
    respondWithError(deps, incoming, observed, isLeft ? clientGone() : error, client);
  } finally {
    client.release();
  }
}

/** Before the response is committed, an error rejects; after that, it is logged and the response is ended. */
async function serve(deps: RunDeps, request: InferenceRequest, client: ClientConnection): Promise<void> {
  try {
    if (request.action.kind === 'generation') await runPlanned(deps, request, client);
    else await runStored(deps, request, client);
  } catch (error) {
    if (!client.isCommitted) {
      const key = keyInstead(request, error);
      if (!key) throw error;
      return await serveInstead(deps, { ...request, key }, client, error);
    }
    request.observed.outcome = 'fault';
    deps.logger.error({ err: error, requestId: request.id }, 'failed to relay a response');
    const { action } = request;
    const operation = action.kind === 'generation' ? action.operation : STORED_RESPONSE;
    sendInternalError({ client, operation, requestId: request.id }, error);
  }
}

/** The key as it is now that the budget of its governing policy can't pay the request; undefined: the refusal stands. */
function keyInstead({ key, action }: InferenceRequest, error: unknown): ResolvedKey | undefined {
  if (!key.onExhausted || action.kind !== 'generation') return undefined;
  if (!(error instanceof LimitError) || error.code !== 'budget_exhausted') return undefined;
  return error.counter.bucket.policyId === key.policies[0]?.bucket.policyId ? key.onExhausted : undefined;
}

/** Serves a request by the policy that governs now, from its beginning. What its profile can't serve is refused for the budget. */
async function serveInstead(
  deps: RunDeps,
  request: InferenceRequest,
  client: ClientConnection,
  refusal: unknown,
): Promise<void> {
  const { observed } = request;
  const { key } = observed;
  observed.key = request.key;
  try {
    await serve(deps, request, client);
  } catch (error) {
    if (observed.attempts > 0 || !(error instanceof AppError) || !UNSERVED.has(error.kind)) throw error;
    observed.key = key;
    throw refusal;
  }
}

/** Errors that mean that the fallback's profile can't serve the request: the caller, who named another model, gets the budget's refusal. */
const UNSERVED: ReadonlySet<ErrorKind> = new Set(['invalid_request', 'permission', 'not_found']);

/** A request for a stored response counts against the rate limits too, before its owner is looked up. */
async function runStored(deps: RunDeps, request: InferenceRequest, client: ClientConnection): Promise<void> {
  const { key, action } = request;
  // Before anything is known of the response: a refusal must not reveal whether someone else's response exists.
  client.headers.set('x-svc-cache', 'bypass');
  const hold = key.rates.length > 0 ? await admitTokens(deps, key, 0, client.headers) : undefined;
  try {
    const { responses } = deps;
    const isOwn = action.kind === 'stored_response' && isOwnResponse(action.responseId);
    if (responses && isOwn) await respondWithStored(responses, request, action, client);
    else await runPlanned(deps, request, client);
  } finally {
    if (hold) deps.rates.settle(hold, 0);
  }
}

async function runPlanned(deps: RunDeps, request: InferenceRequest, client: ClientConnection): Promise<void> {
  const { key, observed } = request;
  observed.saidElsewhere = saidElsewhere(key, request.headers, request.action);
  const planning = planOf(deps, request, client);
  const plan = planning instanceof Promise ? await planning : planning;
  if (plan.kind === 'generation') {
    const [{ model, connector }] = plan.targets;
    observed.streamed = plan.generation.stream;
    observed.model = model.id;
    observed.connectorId = connector.id;
  }

  const caching = openCaching(deps, request, plan, client.headers);
  if (caching && (await tryCache(deps, request, caching, client))) return;

  const admitting = admitByRates(deps, key, plan, client.headers);
  const hold = admitting instanceof Promise ? await admitting : admitting;
  const attempts = new RequestAttempts(deps, new RequestContext(deps, request, plan, client));
  let servesInstead = false;
  let delivered: Delivered | undefined;
  deps.inFlight.begin(client);
  try {
    // The client disconnected before anything was sent: nothing is charged.
    if (client.hasDisconnected) return client.commit();
    client.cancellation.throwIfCancelled();
    if (plan.kind === 'generation' && plan.isEstimated) {
      return await respondWithEstimate(deps, request, plan, client);
    }
    delivered = await (plan.kind === 'generation'
      ? failOver(deps, { plan, client, attempts })
      : findStored(deps, { plan, client, attempts }));
    client.commit();
    await relayDelivered(deps, request, plan, delivered, caching, client);
  } catch (error) {
    delivered?.response.body.destroy();
    servesInstead = !client.isCommitted && keyInstead(request, error) !== undefined;
    throw error;
  } finally {
    attempts.close();
    if (hold && servesInstead) deps.rates.undo(hold);
    else if (hold) deps.rates.settle(hold, attempts.usedTokens);
    deps.inFlight.end(client);
  }
}

/** Decides where the request goes. A refused request gets its rate-limit headers too. */
function planOf(
  deps: RunDeps,
  request: InferenceRequest,
  { headers, memory }: ClientConnection,
): Plan | Promise<Plan> {
  const { key, action, observed } = request;
  const table = currentTable(deps);
  const onRefusal = (error: unknown): never => {
    writeRateHeaders(deps, key, headers);
    throw error;
  };
  try {
    const planning =
      action.kind === 'generation'
        ? planGeneration(deps, { key, headers: request.headers, memory, observed }, action, table)
        : planStored(deps, key, action, table);
    return planning instanceof Promise ? planning.catch(onRefusal) : planning;
  } catch (error) {
    return onRefusal(error);
  }
}

/** Undefined if the cache plays no part. Sets `x-svc-cache` to `miss` or `bypass`; a hit overwrites it. */
function openCaching(
  { cache }: RunDeps,
  request: InferenceRequest,
  plan: Plan,
  headers: ResponseHeaders,
): RequestCaching | undefined {
  if (plan.kind !== 'generation') return undefined;
  const caching = requestCaching(cache, request, plan);
  headers.set('x-svc-cache', caching ? 'miss' : 'bypass');
  return caching;
}

/** Answers from the cache if it has a response; the request counts against the rate limits, with no tokens. */
async function tryCache(
  deps: RunDeps,
  request: InferenceRequest,
  caching: RequestCaching,
  client: ClientConnection,
): Promise<boolean> {
  const finding = caching.find();
  const cached = finding instanceof Promise ? await finding : finding;
  if (!cached) return false;
  const { key, observed } = request;
  const hold = key.rates.length > 0 ? await admitTokens(deps, key, 0, client.headers) : undefined;
  try {
    observed.outcome = 'cache_hit';
    observed.model = cached.model;
    const context = new RequestContext(deps, request, caching.plan, client);
    respondFromCache(deps, request, caching.plan, client, { cached, billed: context });
  } finally {
    if (hold) deps.rates.settle(hold, 0);
  }
  return true;
}

/** The current routing table; throws a 503 before the first snapshot of the control plane. */
export function currentTable({ table }: Pick<RunDeps, 'table'>): RoutingTable {
  const message = 'This proxy has not received its configuration from the control plane yet. Try again.';
  return table() ?? raise(new AppError('unavailable', 'no_snapshot', message));
}
