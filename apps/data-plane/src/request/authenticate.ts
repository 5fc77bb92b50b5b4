import type { IncomingHttpHeaders } from 'node:http';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Wire } from '../formats/operation.ts';

/**
 * The key that a request shows. Disabled and expired are checked at every request, cached or not. With `refresh` it is
 * asked for anew.
 */
export async function authenticate(
  keys: KeyCache,
  headers: IncomingHttpHeaders,
  wire: Wire,
  nowMs: number,
  how: 'find' | 'refresh' = 'find',
): Promise<ResolvedKey> {
  const token = shownToken(headers, wire) ?? raise(missingKey());
  if (!isWellFormedToken(token)) throw unknownKey();
  const found = keys[how](tokenSha256(token));
  const key = (found instanceof Promise ? await found : found) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) throw expiredKey(new Date(key.expiresAtMs));
  return key;
}

/** The second vendor's clients may show it in a header of their own; `Authorization` wins where both are there. */
function shownToken(headers: IncomingHttpHeaders, wire: Wire): string | undefined {
  if (wire === 'anthropic' && headers.authorization === undefined)
    return String(headers['x-api-key'] ?? '') || undefined;
  return bearerToken(headers.authorization);
}
