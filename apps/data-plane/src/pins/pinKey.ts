import { createHash } from 'node:crypto';
import { type Headers, parseSession } from '@weighbridge/domain';

/** A request of a session, as its pin is looked up. */
export interface PinnedRequest {
  readonly principalId: string;
  readonly headers: Headers;
  readonly call: { readonly model: string; readonly promptCacheKey: string | undefined };
}

/**
 * What a session's decision is kept under: whose it is, which session, and the model that was asked for, hashed. The
 * service's header says which session, and where it is absent the vendor's own field for what belongs together. Undefined
 * where a request names none.
 */
export function pinKeyOf({ principalId, headers, call }: PinnedRequest): string | undefined {
  const session = sessionOf(headers, call.promptCacheKey);
  if (session === undefined) return undefined;
  return sha256(JSON.stringify([principalId, ...session, call.model])).toString('base64url');
}

function sessionOf(headers: Headers, promptCacheKey: string | undefined): [string, string] | undefined {
  const session = parseSession(headers);
  if (session) return ['session', Buffer.from(session.sha256).toString('hex')];
  return promptCacheKey ? ['prompt_cache_key', sha256(promptCacheKey).toString('hex')] : undefined;
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
