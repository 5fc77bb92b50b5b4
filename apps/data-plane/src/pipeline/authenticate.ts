import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
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
  if (key.disabled) throw new AppError('authentication', 'key_disabled', 'This key is disabled.');
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) {
    throw new AppError('authentication', 'key_expired', 'This key has expired.');
  }
  return key;
}

function missingKey(): AppError {
  return new AppError(
    'authentication',
    'missing_api_key',
    'Send your key in the header "Authorization: Bearer sk-svc-…".',
  );
}

function unknownKey(): AppError {
  return new AppError(
    'authentication',
    'invalid_api_key',
    'No key has this token. Check it for missing characters.',
  );
}
