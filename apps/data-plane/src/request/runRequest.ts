import { AppError, raise } from '@weighbridge/errors';
import { clientGone, type Logger } from '@weighbridge/runtime';
import { type Answered, AnswerOwnership } from '../attempt/answerOwnership.ts';
import type { Attempt, AttemptDeps } from '../attempt/attempt.ts';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { droppedText } from '../attempt/droppedFields.ts';
import { addRequestId, errorResponse, sendError, sendInternalError } from '../attempt/errorResponse.ts';
import type { Delivered, FailoverDeps } from '../attempt/failover.ts';
import { forward } from '../attempt/forward.ts';
import type { ModelRequest, Plan } from '../attempt/plan.ts';
import { relayResponse } from '../attempt/relayResponse.ts';
import { RequestAttempts } from '../attempt/requestAttempts.ts';
import { headerText, type ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { LeaseBook } from '../budget/leaseBook.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import type { CacheFill } from '../cache/streamCapture.ts';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { RoutingTable } from '../control/routingTable.ts';
import { INPUT_ITEMS, STORED_RESPONSE } from '../formats/operation.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { Observer } from '../observe/observer.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { isRateHeader } from '../rates/rateHeaders.ts';
import type { MemoryBudget } from '../shared/memoryBudget.ts';
import { isOwnResponse } from '../translation/responseStore.ts';
import { appendCommonHeaders, appendVendorHeaders } from '../upstream/headers.ts';
import { authenticate } from './authenticate.ts';
import type { InFlightRequests } from './inFlightRequests.ts';
import { type PlanDeps, planGeneration } from './planRequest.ts';
import { planStored } from './planStored.ts';
import { admitByRates, admitTokens, type RateDeps, writeRateHeaders } from './rateAdmission.ts';
import { type RequestCaching, requestCaching } from './requestCaching.ts';
import { type IncomingRequest, type InferenceRequest, RequestContext } from './requestContext.ts';
import { respondFromCache } from './respondFromCache.ts';
import { respondWithEstimate } from './respondWithEstimate.ts';
import { respondWithStored } from './respondWithStored.ts';
import { storing } from './storing.ts';
import type { UnfinishedResponses } from './unfinishedResponses.ts';

export interface RunDeps
  extends Omit<AttemptDeps, 'budget' | 'observer'>,
    Omit<PlanDeps, 'budget' | 'usage'>,
    FailoverDeps,
    RateDeps {
  readonly keys: KeyCache;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle' | 'headroom'>;
  readonly table: () => RoutingTable | undefined;
  /** For what requests hold. */
  readonly memory: MemoryBudget;
  readonly inFlight: InFlightRequests;
  readonly cache: ResponseCache;
  readonly unfinished: Pick<UnfinishedResponses, 'watch' | 'tell'>;
  readonly observer: Observer;
  readonly logger: Logger;
}

/**
 * Runs one inference request from its head to its settlement, whichever way it came in: authenticate, read the body, plan,
 * count against the rate limits, answer from the cache or forward, relay and settle. Answers the client in every case;
 * never rejects.
 *
 * Steps return a promise only if they have to wait: awaiting every step costs more than most of them do (docs/adr/0017).
 */
export async function runRequest(
  deps: RunDeps,
  incoming: IncomingRequest,
  client: ClientConnection,
): Promise<void> {
  const { id, dialect, endpoint, headers, receivedAt } = incoming;
  const observed = deps.observer.begin({ id, endpoint, receivedAt, key: incoming.key }, headers);
  try {
    // Before the body is read: no one uploads 32 MiB to learn that a key is wrong.
    const authenticating = incoming.key ?? authenticate(deps.keys, incoming, deps.now().getTime());
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
    // What a vendor's connection says once the client's is closed is no news, and no failure.
    const isLeft = client.hasDisconnected && error instanceof AppError;
    respondWithError(deps, incoming, observed, isLeft ? clientGone() : error, client);
  } finally {
    client.release();
  }
}

/** Sends an error response, unless a response has begun. */
function respondWithError(
  { observer, logger }: RunDeps,
  { id, dialect }: IncomingRequest,
  observed: RequestObservation,
  error: unknown,
  client: ClientConnection,
): void {
  const sent = errorResponse(dialect, error, id);
  observer.failed(observed, error, sent.status);
  const isLogged = !(error instanceof AppError) || error.isLogged;
  if (sent.status >= 500 && isLogged) logger.error({ err: error, requestId: id }, 'request failed');
  const { response, headers } = client;
  if (response.headersSent || response.destroyed) return;
  addRequestId(headers, dialect, id);
  sendError(response, headers, sent, id);
}

/** Before the response is committed, an error rejects; after that, it is logged and the response is ended. */
async function serve(deps: RunDeps, request: InferenceRequest, client: ClientConnection): Promise<void> {
  try {
    if (request.action.kind === 'generation') await runPlanned(deps, request, client);
    else await runStored(deps, request, client);
  } catch (error) {
    if (!client.isCommitted) throw error;
    request.observed.outcome = 'fault';
    deps.logger.error({ err: error, requestId: request.id }, 'failed to relay a response');
    const { action } = request;
    const operation = action.kind === 'generation' ? action.operation : STORED_RESPONSE;
    sendInternalError({ client, operation, requestId: request.id }, error);
  }
}

/** A request for a stored response counts against the rate limits too, before its owner is looked up. */
async function runStored(deps: RunDeps, request: InferenceRequest, client: ClientConnection): Promise<void> {
  const { key, action } = request;
  // Before anything is known of the response: no refusal may tell another principal's from one that does not exist.
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
  deps.inFlight.begin(client);
  try {
    // The client disconnected before anything was sent: nothing is charged.
    if (client.hasDisconnected) return client.commit();
    client.cancellation.throwIfCancelled();
    if (plan.kind === 'generation' && plan.isEstimated) {
      return await respondWithEstimate(deps, request, plan, client);
    }
    const delivered = await forward(deps, { plan, client, attempts });
    client.commit();
    await relay(deps, request, plan, delivered, caching, client);
  } finally {
    attempts.close();
    if (hold) deps.rates.settle(hold, attempts.usedTokens);
    deps.inFlight.end(client);
  }
}

/** Decides where the request goes. A refused request gets its rate-limit headers too. */
function planOf(
  deps: RunDeps,
  request: InferenceRequest,
  { headers, memory }: ClientConnection,
): Plan | Promise<Plan> {
  const { key, action } = request;
  const table = currentTable(deps);
  const onRefusal = (error: unknown): never => {
    writeRateHeaders(deps, key, headers);
    throw error;
  };
  try {
    const planning =
      action.kind === 'generation'
        ? planGeneration(deps, { key, headers: request.headers, memory }, action, table)
        : planStored(deps, key, action, table);
    return planning instanceof Promise ? planning.catch(onRefusal) : planning;
  } catch (error) {
    return onRefusal(error);
  }
}

/** Passes the response on, and settles its attempt before the HTTP response ends. */
async function relay(
  deps: RunDeps,
  request: InferenceRequest,
  plan: Plan,
  delivered: Delivered,
  caching: RequestCaching | undefined,
  client: ClientConnection,
): Promise<void> {
  const { attempt, response } = delivered;
  const { connector, modelRequest } = attempt.prepared;
  if (plan.kind === 'generation' && modelRequest && response.status < 300) plan.savePin(modelRequest);
  const unfinished = modelRequest?.generation.isBackground
    ? { eventId: attempt.eventId, model: modelRequest.model.id }
    : undefined;
  try {
    await relayResponse({
      attempt,
      response,
      plan,
      capture: captureOf(caching, plan, attempt, client),
      client,
      requestId: request.id,
      headers: responseHeaders(request, plan, delivered, client.headers),
      ownership: ownershipOf(deps, request.key, plan, attempt, unfinished),
      store: storing(deps.responses, request.key, attempt.prepared, plan),
      onRead: settlesLater(deps, request, plan, unfinished && connector.id),
    });
  } catch (error) {
    response.body.destroy();
    throw error;
  }
}

/** Undefined if the answer is not cached. */
function captureOf(
  caching: RequestCaching | undefined,
  { operation }: Plan,
  { prepared: { modelRequest, translation } }: Attempt,
  { memory }: ClientConnection,
): CacheFill | undefined {
  // Another request may have the tools that this one lost.
  if (!caching || !isAsSent(modelRequest)) return undefined;
  if (!translation) return caching.capture(modelRequest, memory);
  // Where callers choose whether they see the usage, a stream that is translated has it or not.
  if (operation.needsIncludeUsage && translation.answer.stream) return undefined;
  const dropped = droppedText(undefined, translation.losses);
  return caching.capture(modelRequest, memory, dropped === '' ? undefined : dropped);
}

/** Undefined if the answer names nothing that the caller then owns. */
function ownershipOf(
  { owners }: RunDeps,
  key: ResolvedKey,
  plan: Plan,
  { prepared: { connector, modelRequest, translation } }: Attempt,
  unfinished: Answered['unfinished'],
): AnswerOwnership | undefined {
  const connectorId = connector.id;
  if (plan.kind === 'stored_response') {
    if (!plan.isOwn) return undefined;
    // What the vendor did in the background is named when it is read, and so is the input.
    const { responseId: readId } = plan;
    return new AnswerOwnership(owners, {
      isStored: false,
      namesResponse: false,
      connectorId,
      key,
      unfinished,
      readId,
      repeated: plan.operation === INPUT_ITEMS ? 'all' : undefined,
    });
  }
  // Of a translated answer, the caller gets no id of the vendor's.
  if (!modelRequest || translation) return undefined;
  const { isStored, operation, spans } = modelRequest.generation;
  // Of chat completions, only spoken ones name an object.
  if (!operation.namesObjects && !spans.has('audio')) return undefined;
  // On other routes, the answer's own id names a stored object only in a thread of messages.
  const namesResponse = isStored || operation.isStored;
  const others = plan.objects?.others ?? [];
  const repeated = others.length > 0 ? new Set(others.map(({ id }) => id)) : undefined;
  return new AnswerOwnership(owners, { isStored, namesResponse, connectorId, key, unfinished, repeated });
}

/**
 * What becomes of the facts of a background response, when it is made (at `connectorId`) and when a client reads it: its
 * charge is corrected by them, or by what the vendor says later.
 */
function settlesLater(
  { unfinished }: RunDeps,
  { key: { principalId } }: InferenceRequest,
  plan: Plan,
  connectorId: string | undefined,
): ((facts: ResponseFacts) => void) | undefined {
  if (plan.kind === 'stored_response') {
    const stored = plan.unfinished;
    return stored && ((facts) => unfinished.tell({ ...stored, principalId }, facts));
  }
  if (connectorId === undefined || !plan.generation.isStored) return undefined;
  return (facts) => {
    const { responseId } = facts;
    if (responseId === '') return;
    const made = { responseId, connectorId, principalId };
    unfinished.watch(made);
    unfinished.tell(made, facts);
  };
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

/** The headers of this service and those of the vendor that the client may see. */
function responseHeaders(
  { id, receivedAt, observed }: InferenceRequest,
  { operation }: Plan,
  { attempt, response, upstreamMs }: Delivered,
  own: ResponseHeaders,
): ResponseHeaders {
  const overheadMs = performance.now() - receivedAt - upstreamMs;
  observed.overheadMs = overheadMs;
  const headers = own.copy();
  const { modelRequest, translation } = attempt.prepared;
  if (translation) appendCommonHeaders(headers.list, response.headers);
  else appendVendorHeaders(headers.list, response.headers, { isRated: own.list.some(isRateHeader) });
  addRequestId(headers, operation.dialect, id);
  if (modelRequest) {
    headers.list.push('x-svc-model', headerText(modelRequest.model.id));
    const removed = modelRequest.generation.hard?.removedTools;
    const dropped = droppedText(removed, translation?.losses);
    if (dropped !== '') headers.list.push('x-svc-dropped', dropped);
  }
  headers.list.push('x-svc-overhead-ms', overheadMs.toFixed(3));
  return headers;
}

function isAsSent(request: ModelRequest | undefined): request is ModelRequest {
  return request !== undefined && (request.generation.hard?.removedTools.length ?? 0) === 0;
}

/** The current routing table; throws a 503 before the first snapshot of the control plane. */
export function currentTable({ table }: Pick<RunDeps, 'table'>): RoutingTable {
  const message = 'This proxy has not received its configuration from the control plane yet. Try again.';
  return table() ?? raise(new AppError('unavailable', 'no_snapshot', message));
}
