import { Outcome } from '@weighbridge/contracts';
import { NO_TOKENS } from '@weighbridge/domain';
import type { Logger } from '@weighbridge/runtime';
import { priceAt } from '@weighbridge/state';
import { type BilledRequest, eventHead, eventShard, eventTail, LIST_PRICE_DETAILS } from '@weighbridge/usage';
import type { UsageLog } from '@weighbridge/usage/recording';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import { addRequestId } from '../attempt/errorResponse.ts';
import type { GenerationPlan } from '../attempt/plan.ts';
import { headerText } from '../attempt/responseHeaders.ts';
import { type CachedResponse, clientBody } from '../cache/cachedResponse.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import type { Target } from '../control/target.ts';
import { ARRAY_TYPE, arrayOf } from '../formats/eventsToArray.ts';

export interface CacheResponseDeps {
  readonly usage: Pick<UsageLog, 'begin' | 'shards'>;
  readonly cache: Pick<ResponseCache, 'ageMs'>;
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** Answers an admitted request with a cached response. It costs nothing, and is recorded as a cache hit. */
export function respondFromCache(
  deps: CacheResponseDeps,
  { id, receivedAt }: { readonly id: string; readonly receivedAt: number },
  { operation, hideUsage, streamsArray, targets }: GenerationPlan,
  client: ClientConnection,
  { cached, billed }: { readonly cached: CachedResponse; readonly billed: BilledRequest },
): void {
  const { response, headers } = client;
  client.commit();
  if (response.destroyed) return;
  record(deps, billed, targetOf(cached, targets));
  const stored = clientBody(cached, hideUsage);
  // Of a stream, events are stored.
  const body = streamsArray ? arrayOf(stored) : stored;
  addRequestId(headers, operation.dialect, id);
  headers.set('content-type', streamsArray ? ARRAY_TYPE : cached.contentType);
  headers.set('content-length', String(body.length));
  headers.set('age', String(Math.floor(deps.cache.ageMs(cached) / 1_000)));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-cache', 'hit');
  headers.set('x-svc-cost-micro-usd', '0');
  if (cached.dropped !== undefined) headers.set('x-svc-dropped', cached.dropped);
  headers.set('x-svc-model', headerText(cached.model));
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(body);
  // The cache may evict it before a slow client has it.
  if (response.writableLength > 0) client.memory.take(body.length);
}

/** The connector that made it, if the request could go there now; else another one of its model. */
function targetOf({ model, connectorId }: CachedResponse, targets: GenerationPlan['targets']): Target {
  const ofModel = targets.filter((target) => target.model.id === model);
  return ofModel.find(({ connector }) => connector.id === connectorId) ?? ofModel[0] ?? targets[0];
}

function record(
  { usage, newEventId, now, logger }: CacheResponseDeps,
  billed: BilledRequest,
  { model, connector }: Target,
): void {
  const eventId = newEventId();
  const { price, source } = priceAt(model, connector);
  try {
    const start = {
      eventId,
      model: model.id,
      connectorId: connector.id,
      priceVersion: price.version,
      priceSource: source,
      attempt: 1,
      modelAttempt: 1,
      isCacheHit: true,
    };
    usage
      .begin({
        eventId,
        shard: eventShard(billed.key, usage.shards),
        reserveNanoUsd: 0n,
        head: eventHead(billed, start),
      })
      .settle(eventTail({ ...HIT, dispatchedAt: performance.now() }, now()));
  } catch (error) {
    // A hit costs nothing, so it is served all the same.
    logger.error({ err: error, requestId: billed.requestId }, 'failed to record a hit of the response cache');
  }
}

const HIT = {
  usage: NO_TOKENS,
  details: LIST_PRICE_DETAILS,
  costNanoUsd: 0n,
  estimated: false,
  outcome: Outcome.SUCCESS,
  status: 200,
  firstByteAt: undefined,
  responseId: '',
  dropped: [],
  skipped: [],
};
