import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';

/** The key that a request shows. Disabled and expired are checked at every request, cached or not. */
export async function authenticate(
  keys: KeyCache,
  authorization: string | undefined,
  nowMs: number,
): Promise<ResolvedKey> {
  const token = bearerToken(authorization) ?? raise(missingKey());
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await keys.find(tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) throw expiredKey(new Date(key.expiresAtMs));
  return key;
}
