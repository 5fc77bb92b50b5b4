import { isPrincipalId, type LockedAttribution } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type Caller, credentialName, isCallingKey, isOperator } from '../../shared/caller.ts';
import { dateTime } from '../../shared/dateTime.ts';
import { DEFAULT_SCOPES, type Scope } from '../../shared/scopes.ts';
import type { KeyFilter, KeyRow } from './keys.repository.ts';

/** What a caller asks for when it creates a key. */
export interface NewKey {
  readonly name: string;
  readonly kind?: 'service' | 'user';
  readonly disabled?: boolean;
  readonly expires_at?: string | null;
  readonly policy_id?: string | null;
  readonly scopes?: readonly Scope[] | null;
  readonly principal_id?: string;
  readonly attribution?: LockedAttribution;
}

/** What a caller may change of a key. Fields that are absent stay as they are. */
export interface KeyChanges {
  readonly name?: string;
  readonly disabled?: boolean;
  readonly expires_at?: string | null;
  readonly policy_id?: string | null;
  readonly attribution?: LockedAttribution;
}

export function expiry(text: string, now: Date): Date {
  const at = dateTime('expires_at', text);
  if (at > now) return at;
  throw new AppError(
    'validation',
    'expires_at_in_past',
    `expires_at must be in the future; it is now ${now.toISOString()}.`,
    {
      param: 'expires_at',
    },
  );
}

/** The scopes that a new key gets: what was asked for, or else those of the four that its issuer holds. */
export function grantableScopes(caller: Caller, asked: readonly Scope[] | null | undefined): Scope[] {
  if (!asked?.length) return DEFAULT_SCOPES.filter((scope) => caller.scopes.includes(scope));
  const scopes = [...new Set(asked)];
  // `inference` grants nothing that a key does not have anyway.
  const beyond = scopes.filter((scope) => scope !== 'inference' && !caller.scopes.includes(scope));
  if (beyond.length === 0) return scopes;
  throw new AppError(
    'permission',
    'scope_escalation',
    `This ${credentialName(caller)} can't grant ${beyond.join(', ')}: it lacks that itself.`,
    {
      param: 'scopes',
    },
  );
}

/** Whose a new key is: the caller's own, unless an operator says otherwise. */
export function principalOf(caller: Caller, asked: string | undefined): string {
  if (asked === undefined || asked === caller.principalId) return caller.principalId;
  if (!isOperator(caller)) {
    throw new AppError(
      'permission',
      'principal_not_allowed',
      'Only an operator issues keys for another principal.',
      {
        param: 'principal_id',
      },
    );
  }
  if (isPrincipalId(asked)) return asked;
  throw new AppError(
    'validation',
    'principal_invalid',
    'principal_id must be 1 to 200 printable characters, without spaces at its ends, and neither "." nor "..".',
    {
      param: 'principal_id',
    },
  );
}

/** Nobody gives a key a longer life than its own. */
export function checkExpiryAgainst(caller: Caller, expiresAt: Date | null): void {
  if (isOperator(caller) || caller.expiresAt === null) return;
  if (expiresAt !== null && expiresAt <= caller.expiresAt) return;
  throw new AppError(
    'permission',
    'expiry_too_late',
    `expires_at can't be later than that of your own ${credentialName(caller)}, ${caller.expiresAt.toISOString()}.`,
    { param: 'expires_at' },
  );
}

export function checkMaySetAttribution(caller: Caller): void {
  if (isOperator(caller)) return;
  throw new AppError('permission', 'attribution_not_allowed', "Only an operator sets a key's attribution.", {
    param: 'attribution',
  });
}

const MAX_LABEL_KEY = 64;

export function checkAttribution({ labels = {} }: LockedAttribution): void {
  const odd = Object.keys(labels).find((key) => key === '' || Array.from(key).length > MAX_LABEL_KEY);
  if (odd === undefined) return;
  throw new AppError(
    'validation',
    'attribution_invalid',
    `The name of a label must have 1 to ${MAX_LABEL_KEY} characters; ${odd ? `"${odd.slice(0, 20)}…" is longer` : 'one is empty'}.`,
    { param: 'attribution.labels' },
  );
}

/** What a list of keys may be narrowed by; query values are text. */
export interface KeyListQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly principal_id?: string;
  readonly policy_id?: string;
  readonly kind?: 'service' | 'user';
  readonly disabled?: 'true' | 'false';
  readonly revoked?: 'true' | 'false';
  readonly expiring_before?: string;
  readonly name_contains?: string;
}

export function keyFilter(caller: Caller, query: KeyListQuery): KeyFilter {
  const isTrue = (text: 'true' | 'false' | undefined) => (text === undefined ? undefined : text === 'true');
  return {
    // Whoever is no operator sees its own principal's keys, and may say so.
    principalId: isOperator(caller) ? query.principal_id : principalOf(caller, query.principal_id),
    policyId: query.policy_id,
    kind: query.kind,
    disabled: isTrue(query.disabled),
    revoked: isTrue(query.revoked),
    expiringBefore:
      query.expiring_before === undefined ? undefined : dateTime('expiring_before', query.expiring_before),
    nameContains: query.name_contains,
  };
}

export function requireNotRevoked(key: KeyRow): void {
  if (key.revoked_at === null) return;
  throw new AppError(
    'conflict',
    'key_revoked',
    `This key was revoked at ${key.revoked_at.toISOString()}, for good.`,
  );
}

/**
 * A new secret is a grant of all that its key may do: nobody gets by rotating what it could not get by creating.
 * A key may always rotate itself.
 */
export function checkMayRotate(caller: Caller, key: KeyRow, policyIsAssignable: boolean): void {
  if (isOperator(caller) || isCallingKey(caller, key.id)) return;
  grantableScopes(caller, key.scopes as Scope[]);
  checkExpiryAgainst(caller, key.expires_at);
  if (policyIsAssignable) return;
  throw new AppError(
    'permission',
    'policy_not_assignable',
    'Another policy governs this key than the one that governs you.',
  );
}
