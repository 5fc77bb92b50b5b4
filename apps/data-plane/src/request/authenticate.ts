import type { IncomingHttpHeaders } from 'node:http';
import { isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { disabledKey, expiredKey, frozenTeam, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { ResolvedKey } from '@weighbridge/state';
import type { KeyCache } from '../control/keyCache.ts';
import type { Dialect } from '../formats/operation.ts';
import { tokenOf } from './credentials.ts';

/** The parts of a request that identify its sender. */
export interface Credentials {
  readonly headers: IncomingHttpHeaders;
  readonly dialect: Dialect;
  /** With the question mark; empty if there is none. */
  readonly query: string;
}

/**
 * The key whose token a request carries; throws or rejects with a 401 for none, or one that may not be used, and with a 403 for one
 * of a frozen team. All are checked at every request, cached or not. `refresh` reads the key from the control plane again.
 */
export function authenticate(
  keys: KeyCache,
  { headers, dialect, query }: Credentials,
  nowMs: number,
  how: 'find' | 'refresh' = 'find',
): ResolvedKey | Promise<ResolvedKey> {
  const { authorization } = headers;
  const known = authorization === undefined ? undefined : keys.hashes?.get(authorization);
  const sha256 = known ?? hashOf(tokenOf(headers, dialect, query), authorization);
  const accept = (found: ResolvedKey | undefined): ResolvedKey => {
    const key = assertUsable(found, nowMs);
    if (authorization !== undefined && !known) keys.hashes?.set(authorization, sha256);
    keys.uses?.note(key.id, nowMs);
    return key;
  };
  const found = keys[how](sha256);
  return found instanceof Promise ? found.then(accept) : accept(found);
}

function hashOf(token: string | undefined, authorization: string | undefined): Uint8Array {
  if (token === undefined) throw missingKey(authorization);
  if (!isWellFormedToken(token)) throw unknownKey();
  return tokenSha256(token);
}

function assertUsable(found: ResolvedKey | undefined, nowMs: number): ResolvedKey {
  const key = found ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expiresAtMs !== undefined && key.expiresAtMs <= nowMs) throw expiredKey(new Date(key.expiresAtMs));
  if (key.isFrozen) throw frozenTeam();
  return key;
}
