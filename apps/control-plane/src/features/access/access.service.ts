import { hkdfSync } from 'node:crypto';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import type { Scope } from '../../shared/scopes.ts';
import { findKeyByTokenSha256 } from '../keys/keySecrets.service.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import { principalExists } from '../principals/principals.service.ts';
import { isTokenShaped, type TokenVerifier } from './oidc/oidc.ts';

export interface AccessDeps extends KeyDeps {
  /** Checks tokens of the deployment's OIDC issuer; undefined where it has none. */
  readonly tokenVerifier?: TokenVerifier | undefined;
}

/** Who holds the credential of an `Authorization` header: a key, or a token of the deployment's OIDC issuer. */
export async function authenticate(deps: AccessDeps, authorization: string | undefined): Promise<Caller> {
  const credential = bearerToken(authorization) ?? raise(missingKey());
  return deps.tokenVerifier && isTokenShaped(credential)
    ? await holderOfToken(deps, deps.tokenVerifier, credential)
    : await holderOfKey(deps, credential);
}

/** Refuses with 401 in the order in which a user would look for the fault. */
async function holderOfKey(deps: KeyDeps, token: string): Promise<Caller> {
  // Its checksum tells a mistyped token without a look-up.
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await findKeyByTokenSha256(deps, tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expires_at && key.expires_at <= deps.now()) throw expiredKey(key.expires_at);
  return {
    identity: { kind: 'key', keyId: key.id },
    principalId: key.principal_id,
    scopes: key.scopes,
    expiresAt: key.expires_at,
    answerKey: () => answerKey(token),
  };
}

async function holderOfToken({ db }: AccessDeps, verifier: TokenVerifier, token: string): Promise<Caller> {
  const { issuer, subject, principalId, scopes, expiresAt } = await verifier.verify(token);
  // An issuer may know everybody of a company: whom this service knows, its operators decide.
  if (!(await principalExists(db, principalId))) {
    const message = `There is no principal ${principalId}. An operator can make it: PUT /api/v1/principals/{principal_id}.`;
    throw new AppError('permission', 'principal_unknown', message);
  }
  return {
    identity: { kind: 'oidc', issuer, subject },
    principalId,
    scopes,
    expiresAt,
    answerKey: () => answerKey(token),
  };
}

function answerKey(token: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', 'weighbridge answer', 32));
}

export async function isOperatorKey(deps: KeyDeps, token: string): Promise<boolean> {
  try {
    return (await holderOfKey(deps, token)).scopes.includes('operator' satisfies Scope);
  } catch (error) {
    if (error instanceof AppError && error.kind === 'authentication') return false;
    throw error;
  }
}
