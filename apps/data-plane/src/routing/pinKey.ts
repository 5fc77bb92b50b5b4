import { createHash } from 'node:crypto';
import type { Route } from '@weighbridge/contracts';
import { type Headers, type RoutingProfile, sessionIdOf } from '@weighbridge/domain';
import type { GenerationRequest } from '../formats/generationRequest.ts';

/** The parts of a request that identify its session. */
export interface PinnedRequest {
  readonly principalId: string;
  readonly headers: Headers;
  /** What the requested name stands for: the id of a model, or `router/<profile>`. */
  readonly model: string;
  readonly generation: Pick<GenerationRequest, 'promptCacheKey'>;
  /** Undefined if the request names a model. */
  readonly profile: Pick<RoutingProfile, 'pinsPromptCacheKeys'> | undefined;
}

/**
 * The key of a session's pin: a hash of the principal, the session and the requested model, on any route. The session comes
 * from this service's header, else from `prompt_cache_key`, if the profile says so: one such key may be shared by many
 * conversations. Undefined if a request has no session.
 */
export function pinKeyOf({
  principalId,
  headers,
  model,
  generation,
  profile,
}: PinnedRequest): string | undefined {
  const session = sessionIdOf(headers);
  const id = session || (profile?.pinsPromptCacheKeys ? generation.promptCacheKey : undefined);
  if (!id) return undefined;
  const source = session ? 'session' : 'prompt_cache_key';
  return sha256(JSON.stringify([principalId, source, id, model])).toString('base64url');
}

/** The key of the pin for a route that the target of the session's pin does not serve. */
export function routePinKey(pinKey: string, route: Route): string {
  return `${pinKey}.${route}`;
}

/**
 * Pseudo-random numbers from 0 up to 1, the same on every proxy: by name, or by the number of the call. Targets ordered by
 * them have the same order for a session on all proxies.
 */
export function drawOf(pinKey: string): (name?: string) => number {
  let calls = 0;
  return (name = `#${calls++}`) => sha256(`${pinKey}/${name}`).readUInt32BE() / 2 ** 32;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
