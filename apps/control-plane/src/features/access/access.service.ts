import { hkdfSync } from 'node:crypto';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import type { Scope } from '../../shared/scopes.ts';
import { findKeyByTokenSha256 } from '../keys/keySecrets.service.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import type { KeyUses } from '../keys/keyUses.service.ts';
import { principalExists } from '../principals/principals.service.ts';
import { isTokenShaped, type TokenVerifier } from './oidc/oidc.ts';

/** What authenticating a key needs. */
export interface CallingKeyDeps extends KeyDeps {
  /** Notes the use of each key. */
  readonly keyUses: Pick<KeyUses, 'note'>;
}

export interface AccessDeps extends CallingKeyDeps {
  /** Verifies tokens of the deployment's OIDC issuer; undefined if it has none. */
  readonly tokenVerifier?: TokenVerifier | undefined;
}

/** The caller behind an `Authorization` header, which carries a key or a token of the deployment's OIDC issuer. */
export async function authenticate(deps: AccessDeps, authorization: string | undefined): Promise<Caller> {
  const credential = bearerToken(authorization) ?? raise(missingKey());
  return deps.tokenVerifier && isTokenShaped(credential)
    ? await callerOfToken(deps, deps.tokenVerifier, credential)
    : await callerOfKey(deps, credential);
}

/** Throws 401 for a key that is malformed, unknown, disabled or expired, checked in this order. */
async function callerOfKey(deps: CallingKeyDeps, token: string): Promise<Caller> {
  // The checksum rejects a mistyped token without a query.
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await findKeyByTokenSha256(deps, tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expires_at && key.expires_at <= deps.now()) throw expiredKey(key.expires_at);
  deps.keyUses.note(key.id);
  return {
    identity: { kind: 'key', keyId: key.id, graceEndsAt: key.secret_expires_at },
    principalId: key.principal_id,
    scopes: key.scopes,
    expiresAt: key.expires_at,
    sealingKey: () => sealingKey(token),
  };
}

async function callerOfToken({ db }: AccessDeps, verifier: TokenVerifier, token: string): Promise<Caller> {
  const { issuer, subject, principalId, scopes, expiresAt } = await verifier.verify(token);
  // An issuer may issue tokens to everyone in a company; operators decide who of them is a principal here.
  if (!(await principalExists(db, principalId))) {
    const message = `There is no principal ${principalId}. An operator can create it with PUT /api/v1/principals/{principal_id}.`;
    throw new AppError('permission', 'principal_unknown', message);
  }
  return {
    identity: { kind: 'oidc', issuer, subject },
    principalId,
    scopes,
    expiresAt,
    sealingKey: () => sealingKey(token),
  };
}

function sealingKey(token: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', 'weighbridge answer', 32));
}

/** Whether a token is a valid key with the scope `operator`. */
export async function hasOperatorKey(deps: CallingKeyDeps, token: string): Promise<boolean> {
  try {
    return (await callerOfKey(deps, token)).scopes.includes('operator' satisfies Scope);
  } catch (error) {
    if (error instanceof AppError && error.kind === 'authentication') return false;
    throw error;
  }
}
