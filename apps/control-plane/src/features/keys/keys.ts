import { isPrincipalId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { problemOfValue } from '../../shared/attributionValues.ts';
import {
  type Caller,
  credentialName,
  insufficientRole,
  isOperator,
  ledTeamsOf,
  readsAll,
  visibleObjects,
} from '../../shared/caller.ts';
import { parseDateTime } from '../../shared/dateTime.ts';
import { DEFAULT_SCOPES, type Scope } from '../../shared/scopes.ts';
import type { KeyFilter, KeyRow } from './keys.repository.ts';
import type { Attribution, Key, KeyQuery } from './keys.schemas.ts';

/** The key of a row as the API shows it, with the policy that governs it, and the end of its grace period if it has one. */
export function toKey(row: KeyRow, policyId: string, graceEndsAt?: Date): Key {
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    disabled: row.disabled,
    expires_at: row.expires_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    revoked_at: row.revoked_at?.toISOString() ?? null,
    grace_ends_at: row.revoked_at === null ? (graceEndsAt?.toISOString() ?? null) : null,
    policy_id: policyId,
    key_hint: row.key_hint,
    scopes: row.scopes,
    principal_id: row.principal_id,
    attribution: row.attribution as Attribution,
    managed_by: row.managed_by,
  };
}

/** Parses `expires_at`; throws a 422 if it is not in the future. */
export function parseExpiry(text: string, now: Date): Date {
  const at = parseDateTime('expires_at', text);
  if (at > now) return at;
  throw new AppError(
    'validation',
    'expires_at_in_past',
    `expires_at must be in the future; it is now ${now.toISOString()}.`,
    { param: 'expires_at' },
  );
}

/** The scopes of a new key: the requested ones, else those of DEFAULT_SCOPES that the caller has. */
export function grantableScopes(caller: Caller, requested: readonly Scope[] | null | undefined): Scope[] {
  if (!requested?.length) return DEFAULT_SCOPES.filter((scope) => caller.scopes.includes(scope));
  const scopes = [...new Set(requested)];
  // Every key may do what `inference` allows, so anyone may grant it; and `operator` reads what `admin:read` does.
  const may = (scope: Scope) =>
    caller.scopes.includes(scope) || scope === 'inference' || (scope === 'admin:read' && isOperator(caller));
  const missing = scopes.filter((scope) => !may(scope));
  if (missing.length === 0) {
    // A key that it issues may act in another role than the caller: that of its principal, or the one that its scopes name.
    if (scopes.includes('operator') && !isOperator(caller)) throw insufficientRole('operator');
    if (scopes.includes('admin:read') && !readsAll(caller)) throw insufficientRole('auditor');
    return scopes;
  }
  throw new AppError(
    'permission',
    'scope_escalation',
    `This ${credentialName(caller)} cannot grant scopes that it does not have: ${missing.join(', ')}.`,
    { param: 'scopes' },
  );
}

/** The principal of a new key: the caller's own, unless an operator names another, or the lead of a team one of its members. */
export function principalOf(caller: Caller, requested: string | undefined): string {
  if (requested === undefined || requested === caller.principalId) return caller.principalId;
  if (!isOperator(caller)) {
    // Whether it is one of its members, the transaction checks.
    if (ledTeamsOf(caller).length > 0) return requested;
    throw principalNotAllowed();
  }
  if (isPrincipalId(requested)) return requested;
  throw new AppError(
    'validation',
    'principal_invalid',
    'principal_id must have 1 to 200 printable characters, no spaces at its ends, and not be "." or "..".',
    { param: 'principal_id' },
  );
}

/** Throws a 403 if a key with this expiry would outlive the caller's own credential. */
export function assertExpiryAllowed(caller: Caller, expiresAt: Date | null): void {
  if (isOperator(caller) || caller.expiresAt === null) return;
  if (expiresAt !== null && expiresAt <= caller.expiresAt) return;
  throw new AppError(
    'permission',
    'expiry_too_late',
    `expires_at must not be later than the expiry of your own ${credentialName(caller)}, ${caller.expiresAt.toISOString()}.`,
    { param: 'expires_at' },
  );
}

const MAX_LABEL_NAME = 64;

/** Throws if the caller may not set an attribution, or if the name of a label is invalid. */
export function assertAttributionAllowed(caller: Caller, { labels = {}, ...texts }: Attribution): void {
  if (!isOperator(caller)) {
    throw new AppError(
      'permission',
      'attribution_not_allowed',
      "Only an operator can set a key's attribution.",
      { param: 'attribution' },
    );
  }
  const invalid = Object.keys(labels).find((name) => name === '' || Array.from(name).length > MAX_LABEL_NAME);
  if (invalid !== undefined) {
    throw attributionInvalid(
      'attribution.labels',
      `The name of a label must have 1 to ${MAX_LABEL_NAME} characters: ${invalid ? `"${invalid.slice(0, 20)}…" is longer` : 'one is empty'}.`,
    );
  }
  for (const [name, value] of [...Object.entries(texts), ...labelFields(labels)]) {
    const problem = problemOfValue(value);
    if (problem) throw attributionInvalid(`attribution.${name}`, `The value of ${name} ${problem}.`);
  }
}

/** Each with its name, which is in the value of a header: it has the same bounds. */
function labelFields(labels: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(labels).flatMap(([name, value]): [string, string][] => [
    ['labels', name],
    [`labels.${name}`, value],
  ]);
}

function attributionInvalid(param: string, message: string): AppError {
  return new AppError('validation', 'attribution_invalid', message, { param });
}

/** Throws a 403 if the caller may not issue keys for files: pruning by their owner would revoke them. */
export function assertManagedByAllowed(caller: Caller, managedBy: string | null): void {
  if (managedBy === null || isOperator(caller)) return;
  throw new AppError('permission', 'managed_by_not_allowed', 'Only an operator can issue keys for files.', {
    param: 'managed_by',
  });
}

export function keyFilter(caller: Caller, query: KeyQuery): KeyFilter {
  const isTrue = (text: 'true' | 'false' | undefined) => (text === undefined ? undefined : text === 'true');
  return {
    ...visibleObjects(caller, query.principal_id, 'the keys'),
    teamId: query.team_id,
    policyId: query.policy_id,
    kind: query.kind,
    disabled: isTrue(query.disabled),
    revoked: isTrue(query.revoked),
    expiringBefore:
      query.expiring_before === undefined
        ? undefined
        : parseDateTime('expiring_before', query.expiring_before),
    nameContains: query.name_contains,
    managedBy: query.managed_by,
  };
}

export function assertNotRevoked(key: KeyRow): void {
  if (key.revoked_at === null) return;
  throw new AppError(
    'conflict',
    'key_revoked',
    `This key was revoked at ${key.revoked_at.toISOString()} and cannot be changed. Create another key.`,
  );
}

export function principalNotAllowed(): AppError {
  return new AppError(
    'permission',
    'principal_not_allowed',
    'Only an operator can issue keys for another principal, and the lead of a team for its members.',
    { param: 'principal_id' },
  );
}

export function deactivatedPrincipal(id: string): AppError {
  return new AppError(
    'conflict',
    'principal_deactivated',
    `The principal ${id} is deactivated, so its keys cannot be used. Activate it first.`,
    { param: 'principal_id' },
  );
}
