import type { IncomingHttpHeaders } from 'node:http';
import { isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { KeyCache } from '../control/keyCache.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Dialect } from '../formats/operation.ts';
import { tokenOf } from './credentials.ts';

/** What of a request says who sends it. */
export interface Credentials {
  readonly headers: IncomingHttpHeaders;
  readonly dialect: Dialect;
  /** With the question mark; empty if there is none. */
  readonly query: string;
}

/**
 * The key whose token a request carries; rejects with a 401 for none, or one that may not be used. Disabled and expired are
 * checked at every request, cached or not. `refresh` reads the key from the control plane again.
 */
export async function authenticate(
  keys: KeyCache,
  { headers, dialect, query }: Credentials,
  nowMs: number,
  how: 'find' | 'refresh' = 'find',
): Promise<ResolvedKey> {
  const token = tokenOf(headers, dialect, query) ?? raise(missingKey());
  if (!isWellFormedToken(token)) throw unknownKey();
  const found = keys[how](tokenSha256(token));
  const key = (found instanceof Promise ? await found : found) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) throw expiredKey(new Date(key.expiresAtMs));
  keys.uses?.note(key.id, nowMs);
  return key;
}
