import type { IncomingHttpHeaders } from 'node:http';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Dialect } from '../formats/operation.ts';

/**
 * The key whose token a request carries; rejects with a 401 for none, or one that may not be used. Disabled and expired are
 * checked at every request, cached or not. `refresh` reads the key from the control plane again.
 */
export async function authenticate(
  keys: KeyCache,
  headers: IncomingHttpHeaders,
  dialect: Dialect,
  nowMs: number,
  how: 'find' | 'refresh' = 'find',
): Promise<ResolvedKey> {
  const token = tokenOf(headers, dialect) ?? raise(missingKey());
  if (!isWellFormedToken(token)) throw unknownKey();
  const found = keys[how](tokenSha256(token));
  const key = (found instanceof Promise ? await found : found) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) throw expiredKey(new Date(key.expiresAtMs));
  keys.uses?.note(key.id, nowMs);
  return key;
}

/** Anthropic's clients may send the token as `x-api-key`; `Authorization` wins if both are there. */
function tokenOf(headers: IncomingHttpHeaders, dialect: Dialect): string | undefined {
  if (dialect === 'anthropic' && headers.authorization === undefined)
    return String(headers['x-api-key'] ?? '') || undefined;
  return bearerToken(headers.authorization);
}
