import { hkdfSync } from 'node:crypto';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import { findKeyByTokenSha256, type KeyDeps } from '../keys/keys.service.ts';
import type { Caller } from './caller.ts';
import type { Scope } from './scopes.ts';

/** Who holds the key of an `Authorization` header. Refuses with 401 in the order in which a user would look for the fault. */
export async function authenticate(deps: KeyDeps, authorization: string | undefined): Promise<Caller> {
  const token = bearerToken(authorization) ?? raise(missingKey());
  // Its checksum tells a mistyped token without a look-up.
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await findKeyByTokenSha256(deps, tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expires_at && key.expires_at <= deps.now()) throw expiredKey(key.expires_at);
  return {
    keyId: key.id,
    principalId: key.principal_id,
    scopes: key.scopes,
    expiresAt: key.expires_at,
    answerKey: () => Buffer.from(hkdfSync('sha256', token, '', 'weighbridge answer', 32)),
  };
}

export async function isOperatorKey(deps: KeyDeps, token: string): Promise<boolean> {
  try {
    return (await authenticate(deps, `Bearer ${token}`)).scopes.includes('operator' satisfies Scope);
  } catch (error) {
    if (error instanceof AppError && error.kind === 'authentication') return false;
    throw error;
  }
}
