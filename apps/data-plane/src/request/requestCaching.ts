import type { IncomingHttpHeaders } from 'node:http';
import { parseWorkloadType } from '@weighbridge/domain';
import { cacheRule, type ResolvedKey } from '@weighbridge/state';
import type { GenerationPlan } from '../attempt/plan.ts';
import { isCacheable } from '../cache/cacheable.ts';
import { type CachedResponse, MAX_CACHED_BYTES } from '../cache/cachedResponse.ts';
import { cacheKey } from '../cache/cacheKey.ts';
import { canonicalMembers } from '../cache/canonicalJson.ts';
import { isCompleteResponse, isCompleteStream } from '../cache/completeness.ts';
import type { ResponseCache } from '../cache/responseCache.ts';
import { type CacheFill, StreamCapture } from '../cache/streamCapture.ts';
import type { Target } from '../control/target.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { forwardableHeaders } from '../upstream/headers.ts';
import { withoutCredentials } from './credentials.ts';

/** The response cache, for one request. */
export interface RequestCaching {
  readonly plan: GenerationPlan;
  find(): CachedResponse | undefined | Promise<CachedResponse | undefined>;
  /** Starts to capture the response of a target, to be stored if it turns out complete. `memory` holds it until then. */
  capture(target: Target, memory: HeldMemory, dropped?: string): CacheFill;
}

export interface CachedRequest {
  readonly key: ResolvedKey;
  readonly headers: IncomingHttpHeaders;
  readonly query: string;
}

/** A larger request takes longer to compare than a hit is worth. */
const MAX_BODY_BYTES = 1024 * 1024;

/** Undefined if the response is neither looked up nor stored. */
export function requestCaching(
  cache: ResponseCache,
  { key, headers, query }: CachedRequest,
  plan: GenerationPlan,
): RequestCaching | undefined {
  const { generation, operation, profile, objects } = plan;
  // Their content may change, and is not everyone's to read.
  if (objects?.isReading) return undefined;
  const rule = cacheRule(key, profile?.cache);
  if (!rule || !operation.isBilled || generation.body.length > MAX_BODY_BYTES) return undefined;
  const use = cacheUse(headers);
  if (use === 'bypass') return undefined;
  const members = canonicalMembers(generation.body.toBuffer());
  if (!members || !isCacheable(generation, members)) return undefined;

  const name = cacheKey({
    rule,
    workloadType: parseWorkloadType(headers)?.sha256,
    profileId: profile?.id,
    generation,
    model: plan.model,
    sentName: plan.sentName,
    members,
    headers: forwardableHeaders(
      headers,
      operation.dialect,
      plan.targets.map(({ connector }) => connector),
    ),
    query: operation.dialect === 'gemini' ? '' : withoutCredentials(query),
  });
  const { ttlMs } = rule;
  const isStrict = key.translatesStrictly || profile?.translatesStrictly === true;
  const { route } = operation;
  return {
    plan,
    find: () =>
      use === 'store'
        ? undefined
        : cache.find({ key: name, ttlMs, allows: (answer) => mayServe(plan, isStrict, answer) }),

    capture({ model, connector }, memory, dropped) {
      const capture = new StreamCapture(memory);
      const store = (answer: Pick<CachedResponse, 'contentType' | 'body' | 'usageSpans'>) =>
        cache.store(name, { ...answer, model: model.id, connectorId: connector.id, dropped, ttlMs });
      return {
        add: capture.add,
        endStream(contentType) {
          const captured = capture.end();
          if (captured && generation.stream && isCompleteStream(route, captured.body))
            store({ ...captured, contentType });
        },
        endBody(body, contentType) {
          capture.discard();
          if (generation.stream || !body || body.length > MAX_CACHED_BYTES) return;
          if (isCompleteResponse(route, body)) store({ body, usageSpans: [], contentType });
        },
        discard: () => capture.discard(),
      };
    },
  };
}

/** A session stays on the model of its pin; any other request takes a response of any of its targets. */
function mayServe(
  { targets, isPinned }: GenerationPlan,
  isStrict: boolean,
  { model, dropped }: Pick<CachedResponse, 'model' | 'dropped'>,
): boolean {
  // What a strict request would be refused for.
  if (isStrict && dropped !== undefined) return false;
  return (isPinned ? targets.slice(0, 1) : targets).some((target) => target.model.id === model);
}

/** How the request's `cache-control` uses the cache (RFC 9111, section 5.2.1). */
function cacheUse({
  'cache-control': control = '',
}: IncomingHttpHeaders): 'read and store' | 'store' | 'bypass' {
  const directives = control
    .toLowerCase()
    .split(',')
    .map((directive) => directive.trim());
  if (directives.includes('no-store')) return 'bypass';
  return directives.includes('no-cache') ? 'store' : 'read and store';
}
