import { createHash } from 'node:crypto';
import { type Headers, sessionIdOf } from '@weighbridge/domain';
import type { GenerationRequest } from '../formats/generationRequest.ts';

/** The parts of a request that identify its session. */
export interface PinnedRequest {
  readonly principalId: string;
  readonly headers: Headers;
  readonly generation: Pick<GenerationRequest, 'model' | 'promptCacheKey'> & {
    readonly operation: Pick<GenerationRequest['operation'], 'route'>;
  };
}

/**
 * The key of a session's pin: a hash of the principal, the session, the requested model and the route. The route is part of
 * it, since a target may serve only one of the routes that a session uses. The session comes from this service's header,
 * else from `prompt_cache_key`; undefined if a request has neither.
 */
export function pinKeyOf({ principalId, headers, generation }: PinnedRequest): string | undefined {
  const session = sessionIdOf(headers);
  const id = session || generation.promptCacheKey;
  if (!id) return undefined;
  const source = session ? 'session' : 'prompt_cache_key';
  return sha256(
    JSON.stringify([principalId, source, id, generation.model, generation.operation.route]),
  ).toString('base64url');
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
