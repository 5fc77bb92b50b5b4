import { createHash } from 'node:crypto';
import { type Headers, sessionIdOf } from '@weighbridge/domain';
import type { GenerationRequest } from '../formats/generationRequest.ts';

/** A request of a session, as its pin is looked up. */
export interface PinnedRequest {
  readonly principalId: string;
  readonly headers: Headers;
  readonly generation: Pick<GenerationRequest, 'model' | 'promptCacheKey'> & {
    readonly operation: Pick<GenerationRequest['operation'], 'route'>;
  };
}

/**
 * What a session's decision is kept under: whose it is, which session, the model that was asked for and the route, hashed:
 * what serves one route may not serve another, and a session that uses both must not move with each request. The service's
 * header says which session, and where it is absent the vendor's own field for what belongs together. Undefined where a
 * request names none.
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
 * Numbers from 0 up to 1 that are the same in every proxy: for the same name, or without one for as many calls. What is
 * ordered by them stands the same way for a session wherever its requests arrive.
 */
export function drawOf(pinKey: string): (name?: string) => number {
  let calls = 0;
  return (name = `#${calls++}`) => sha256(`${pinKey}/${name}`).readUInt32BE() / 2 ** 32;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
