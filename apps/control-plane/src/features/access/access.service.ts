import { hkdfSync } from 'node:crypto';
import { bearerToken, isWellFormedToken, tokenSha256 } from '@weighbridge/domain';
import { AppError, disabledKey, expiredKey, missingKey, raise, unknownKey } from '@weighbridge/errors';
import { type Caller, isOperator, type Rights, type Role, roleOf } from '../../shared/caller.ts';
import { findKeyByTokenSha256 } from '../keys/keySecrets.service.ts';
import type { KeyDeps } from '../keys/keys.service.ts';
import type { KeyUses } from '../keys/keyUses.service.ts';
import { findRights, type PrincipalRights } from '../principals/rights.service.ts';
import { type CodeFlow, isTokenShaped, type TokenVerifier, type VerifiedToken } from './oidc/oidc.ts';
import { joinTeamOfToken } from './tokenTeam.service.ts';

/** What authenticating a key needs. */
export interface CallingKeyDeps extends KeyDeps {
  /** Notes the use of each key. */
  readonly keyUses: Pick<KeyUses, 'note'>;
}

export interface AccessDeps extends CallingKeyDeps {
  /** Verifies tokens of the deployment's OIDC issuer; undefined if it has none. */
  readonly tokenVerifier?: TokenVerifier | undefined;
  /** Signs people in to the console by that issuer; undefined: they need a key. */
  readonly codeFlow?: CodeFlow | undefined;
}

/** The caller behind an `Authorization` header, which carries a key or a token of the deployment's OIDC issuer. */
export async function authenticate(deps: AccessDeps, authorization: string | undefined): Promise<Caller> {
  const credential = bearerToken(authorization) ?? raise(missingKey(authorization));
  return deps.tokenVerifier && isTokenShaped(credential)
    ? await callerOfVerified(deps, await deps.tokenVerifier.verify(credential), credential)
    : await callerOfKey(deps, credential);
}

/** Throws 401 for a key that is malformed, unknown, disabled or expired, checked in this order. */
async function callerOfKey(deps: CallingKeyDeps, token: string): Promise<Caller> {
  // The checksum rejects a mistyped token without a query.
  if (!isWellFormedToken(token)) throw unknownKey();
  const key = (await findKeyByTokenSha256(deps, tokenSha256(token))) ?? raise(unknownKey());
  if (key.disabled) throw disabledKey();
  if (key.expires_at && key.expires_at <= deps.now()) throw expiredKey(key.expires_at);
  const principal = (await findRights(deps.db, key.principal_id)) ?? raise(unknownKey());
  if (principal.deactivatedAt) throw disabledKey();
  deps.keyUses.note(key.id);
  return {
    identity: { kind: 'key', keyId: key.id, graceEndsAt: key.secret_expires_at },
    principalId: key.principal_id,
    scopes: key.scopes,
    rights: key.issued_by_lead ? rightsOfMember(principal) : rightsOfPrincipal(key.scopes, principal, null),
    expiresAt: key.expires_at,
    sealingKey: () => sealingKey(token),
  };
}

/**
 * The caller whom a verified token names. Its principal is created, or moved into a team, if the token's claims map to one.
 * `secret`: what only this caller has.
 */
export async function callerOfVerified(
  deps: CallingKeyDeps,
  { issuer, subject, principalId, scopes, role, team, expiresAt }: VerifiedToken,
  secret: string,
): Promise<Caller> {
  const identity = { kind: 'oidc', issuer, subject } as const;
  let principal = await findRights(deps.db, principalId);
  // An issuer may issue tokens to everyone in a company; operators decide who of them is a principal here: by name, or by
  // what claims map to a role or a team.
  if (!principal && !role && !team) {
    const message = `There is no principal ${principalId}. An operator can create it with PUT /api/v1/principals/{principal_id}.`;
    throw new AppError('permission', 'principal_unknown', message);
  }
  if (principal?.deactivatedAt) {
    const message = `The principal ${principalId} was deactivated. Ask an operator to activate it.`;
    throw new AppError('permission', 'principal_deactivated', message);
  }
  if (!principal || (team && (principal.team?.name !== team.name || principal.team.role !== team.role))) {
    await joinTeamOfToken(deps, { principalId, identity }, team);
    principal = (await findRights(deps.db, principalId)) ?? raise(new Error('the principal was not created'));
  }
  return {
    identity,
    principalId,
    scopes,
    rights: rightsOfPrincipal(scopes, principal, role),
    expiresAt,
    sealingKey: () => sealingKey(secret),
  };
}

/** Whom the issuer named when a session began. */
export type OidcPerson = Pick<VerifiedToken, 'issuer' | 'subject' | 'principalId' | 'scopes' | 'role'>;

/**
 * The caller behind a session that began with a sign-in at the issuer. Its team is the one that its principal is in now; undefined
 * if the principal was deactivated or deleted since.
 */
export async function callerOfPerson(
  { db }: CallingKeyDeps,
  { issuer, subject, principalId, scopes, role }: OidcPerson,
  { expiresAt, secret }: { readonly expiresAt: Date; readonly secret: string },
): Promise<Caller | undefined> {
  const principal = await findRights(db, principalId);
  if (!principal || principal.deactivatedAt) return undefined;
  return {
    identity: { kind: 'oidc', issuer, subject },
    principalId,
    scopes,
    rights: rightsOfPrincipal(scopes, principal, role),
    expiresAt,
    sealingKey: () => sealingKey(secret),
  };
}

/** The rights of a credential. A role that its token's claims map to counts instead of the principal's. */
function rightsOfPrincipal(
  scopes: readonly string[],
  principal: PrincipalRights,
  ofToken: Role | null,
): Rights {
  const team = principal.team && { id: principal.team.id, role: principal.team.role };
  const role = roleOf(scopes, ofToken ?? principal.role, team);
  return { role, team, ledTeamIds: principal.ledTeamIds };
}

/** Of a key that a lead issued: the lead knows it, so it acts in no role that the principal has, or gets later. */
function rightsOfMember({ team }: PrincipalRights): Rights {
  return { role: null, team: team && { id: team.id, role: 'member' }, ledTeamIds: [] };
}

function sealingKey(token: string): Buffer {
  return Buffer.from(hkdfSync('sha256', token, '', 'weighbridge answer', 32));
}

/** Whether a token is a valid key with the scope `operator`. */
export async function hasOperatorKey(deps: CallingKeyDeps, token: string): Promise<boolean> {
  try {
    return isOperator(await callerOfKey(deps, token));
  } catch (error) {
    if (error instanceof AppError && error.kind === 'authentication') return false;
    throw error;
  }
}
