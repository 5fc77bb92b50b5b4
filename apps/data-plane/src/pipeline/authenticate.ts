import type { IncomingHttpHeaders } from 'node:http';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Wire } from '../operations/operation.ts';

/** The key that a request shows. Disabled and expired are checked at every request, cached or not. */
export async function authenticate(
  keys: KeyCache,
  headers: IncomingHttpHeaders,
  wire: Wire,
  nowMs: number,
): Promise<ResolvedKey> {
  const token = shownToken(headers, wire) ?? raise(missingKey());
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await keys.find(tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw new AppError('authentication', 'key_disabled', 'This key is disabled.');
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) {
    throw new AppError('authentication', 'key_expired', 'This key has expired.');
  }
  return key;
}

/** The second vendor's clients may show it in a header of their own; `Authorization` wins where both are there. */
function shownToken(headers: IncomingHttpHeaders, wire: Wire): string | undefined {
  if (wire === 'anthropic' && headers.authorization === undefined)
    return String(headers['x-api-key'] ?? '') || undefined;
  return bearerToken(headers.authorization);
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
