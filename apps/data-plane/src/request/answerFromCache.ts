import { Outcome, usageShard } from '@weighbridge/contracts';
import { NO_TOKENS } from '@weighbridge/domain';
import type { Logger } from '@weighbridge/runtime';
import { headerText } from '../attempt/answerHeaders.ts';
import type { Client } from '../attempt/client.ts';
import { addRequestId } from '../attempt/failure.ts';
import type { GenerationPlan } from '../attempt/plan.ts';
import { type Attempted, eventHead, eventTail } from '../attempt/usageEvent.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import { type StoredAnswer, shownBody } from '../cache/storedAnswer.ts';
import type { Target } from '../control/target.ts';
import type { UsageLog } from '../record/usageLog.ts';

export interface CacheAnswerDeps {
  readonly usage: Pick<UsageLog, 'begin'>;
  readonly cache: Pick<ResponseCache, 'ageMs'>;
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** Gives an earlier answer to a request that was admitted. It costs nothing, and is written down as what it is. */
export function answerFromCache(
  deps: CacheAnswerDeps,
  { id, receivedAt }: { readonly id: string; readonly receivedAt: number },
  { operation, hideUsage, targets }: GenerationPlan,
  client: Client,
  { answer, attempted }: { readonly answer: StoredAnswer; readonly attempted: Attempted },
): void {
  const { response, headers } = client;
  client.take();
  if (response.destroyed) return;
  record(deps, attempted, makerOf(answer, targets));
  const body = shownBody(answer, hideUsage);
  addRequestId(headers, operation.wire, id);
  headers.set('content-type', answer.contentType);
  headers.set('content-length', String(body.length));
  headers.set('age', String(Math.floor(deps.cache.ageMs(answer) / 1_000)));
  headers.set('x-svc-attempts', '0');
  headers.set('x-svc-cache', 'hit');
  headers.set('x-svc-cost-micro-usd', '0');
  headers.set('x-svc-model', headerText(answer.model));
  headers.set('x-svc-overhead-ms', (performance.now() - receivedAt).toFixed(3));
  response.writeHead(200, headers.list);
  response.end(body);
}

/** Its own connector, where the request could go there now, or else another of its model. */
function makerOf({ model, connectorId }: StoredAnswer, targets: GenerationPlan['targets']): Target {
  const ofModel = targets.filter((target) => target.model.id === model);
  return ofModel.find(({ connector }) => connector.id === connectorId) ?? ofModel[0] ?? targets[0];
}

function record(
  { usage, newEventId, now, logger }: CacheAnswerDeps,
  attempted: Attempted,
  target: Target,
): void {
  const [policy] = attempted.key.policies;
  const eventId = newEventId();
  try {
    const start = { eventId, target, attempt: 1, modelAttempt: 1, isCacheHit: true };
    usage
      .begin({
        eventId,
        shard: policy ? usageShard(policy.bucket) : 0,
        reserveNanoUsd: 0n,
        head: eventHead(attempted, start),
      })
      .settle(eventTail({ ...HIT, dispatchedAt: performance.now() }, now()));
  } catch (error) {
    // What costs nothing may go unrecorded.
    logger.error(
      { err: error, requestId: attempted.requestId },
      'a hit of the response cache was not recorded',
    );
  }
}

const HIT = {
  usage: NO_TOKENS,
  costNanoUsd: 0n,
  estimated: false,
  outcome: Outcome.SUCCESS,
  status: 200,
  firstByteAt: undefined,
  responseId: '',
};
