import { isRateHeader } from '@weighbridge/budget';
import type { ResolvedKey } from '@weighbridge/state';
import { type Answered, AnswerOwnership } from '../attempt/answerOwnership.ts';
import type { Attempt } from '../attempt/attempt.ts';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { droppedText } from '../attempt/droppedFields.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import type { Delivered } from '../attempt/failover.ts';
import { wroteForLong } from '../attempt/hiddenUsage.ts';
import type { Plan } from '../attempt/plan.ts';
import type { ModelRequest } from '../attempt/preparedRequest.ts';
import { relayResponse } from '../attempt/relayResponse.ts';
import { headerText, type ResponseHeaders } from '../attempt/responseHeaders.ts';
import type { CacheFill } from '../cache/streamCapture.ts';
import { INPUT_ITEMS } from '../formats/operation.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import { reusableContainerGb, serverToolsOf } from '../formats/serverTools.ts';
import { appendCommonHeaders, appendVendorHeaders } from '../upstream/headers.ts';
import type { PlanDeps } from './planRequest.ts';
import type { RequestCaching } from './requestCaching.ts';
import type { InferenceRequest } from './requestContext.ts';
import { storing } from './storing.ts';
import type { UnfinishedResponses } from './unfinishedResponses.ts';

export interface RelayDeps extends Pick<PlanDeps, 'owners' | 'responses'> {
  readonly unfinished: Pick<UnfinishedResponses, 'watch' | 'tell'>;
}

/** Passes the response on, and settles its attempt before the HTTP response ends. If it rejects, the response is to be discarded. */
export function relayDelivered(
  deps: RelayDeps,
  request: InferenceRequest,
  plan: Plan,
  delivered: Delivered,
  caching: RequestCaching | undefined,
  client: ClientConnection,
): Promise<void> {
  const { attempt, response } = delivered;
  const { modelRequest } = attempt.prepared;
  if (plan.kind === 'generation' && modelRequest && response.status < 300) plan.savePin(modelRequest);
  const unfinished = modelRequest?.generation.isBackground
    ? { eventId: attempt.eventId, model: modelRequest.model.id }
    : undefined;
  return relayResponse({
    attempt,
    response,
    plan,
    capture: captureOf(caching, plan, attempt, client),
    client,
    requestId: request.id,
    headers: responseHeaders(request, plan, delivered, client.headers),
    ownership: ownershipOf(deps, request.key, plan, attempt, unfinished),
    store: storing(deps.responses, request.key, attempt.prepared, plan, client.memory),
    onRead: settlesLater(deps, request, plan, unfinished && modelRequest),
  });
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
  { owners }: RelayDeps,
  key: ResolvedKey,
  plan: Plan,
  { prepared: { connector, modelRequest, translation } }: Attempt,
  unfinished: Answered['unfinished'],
): AnswerOwnership | undefined {
  const connectorId = connector.id;
  if (plan.kind === 'stored_response') {
    if (!plan.isOwn) return undefined;
    // What the vendor did in the background is named when it is read, and so is the input.
    const { responseId: readId, containerGb } = plan;
    return new AnswerOwnership(owners, {
      isStored: false,
      namesResponse: false,
      connectorId,
      containerGb,
      key,
      unfinished,
      readId,
      repeated: plan.operation === INPUT_ITEMS ? 'all' : undefined,
    });
  }
  // A translated answer carries an id of ours, not the vendor's.
  if (!modelRequest || translation) return undefined;
  const { isStored, operation, spans } = modelRequest.generation;
  // Of chat completions, only spoken ones name an object.
  if (!operation.namesObjects && !spans.has('audio')) return undefined;
  // Of messages, the vendor stores those of a thread, and remembers the prompts of those that ask for diagnostics.
  const namesResponse = isStored || operation.isStored || spans.has('diagnostics');
  const repeated = plan.objects?.repeatable;
  return new AnswerOwnership(owners, {
    isStored,
    namesResponse,
    connectorId,
    containerGb: reusableContainerGb(modelRequest.generation),
    key,
    unfinished,
    repeated,
  });
}

/**
 * What becomes of the facts of a background response, when it is `made` and when a client reads it: its
 * charge is corrected by them, or by what the vendor says later.
 */
function settlesLater(
  { unfinished }: RelayDeps,
  { key: { principalId } }: InferenceRequest,
  plan: Plan,
  made: ModelRequest | undefined,
): ((facts: ResponseFacts) => void) | undefined {
  if (plan.kind === 'stored_response') {
    const stored = plan.unfinished;
    return stored && ((facts) => unfinished.tell({ ...stored, principalId }, facts));
  }
  if (!made || !plan.generation.isStored) return undefined;
  return (facts) => {
    const { responseId } = facts;
    if (responseId === '') return;
    const response = { responseId, connectorId: made.connector.id, principalId };
    unfinished.watch(response, { tools: serverToolsOf(made.generation), writesForLong: wroteForLong(made) });
    unfinished.tell(response, facts);
  };
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
