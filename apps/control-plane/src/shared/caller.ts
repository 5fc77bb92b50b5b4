import { AppError } from '@weighbridge/errors';
import type { Scope } from './scopes.ts';

/** How a caller authenticated: by a key, or by a token of the deployment's OIDC issuer. */
export type Identity =
  | {
      readonly kind: 'key';
      readonly keyId: string;
      /** When its secret stops working, because the key was rotated; null: it is the key's current secret. */
      readonly graceEndsAt: Date | null;
    }
  | { readonly kind: 'oidc'; readonly issuer: string; readonly subject: string };

/** What a principal may do for everyone. */
export type Role = 'operator' | 'finance' | 'auditor';

/** Over whose objects a caller's scopes reach. */
export interface Rights {
  /** Null: only its own objects, and those of the teams that it leads. */
  readonly role: Role | null;
  /** The team of its principal. */
  readonly team: { readonly id: string; readonly role: 'member' | 'lead' } | null;
  /** The team that it leads, and all below it. */
  readonly ledTeamIds: readonly string[];
}

/** The authenticated identity behind a request to the operator API. */
export interface Caller {
  readonly identity: Identity;
  readonly principalId: string;
  readonly scopes: readonly string[];
  /** Absent: those of a principal without a role and without a team. */
  readonly rights?: Rights;
  /** When its credential expires; null: never. */
  readonly expiresAt: Date | null;
  /** Of a session of the console: what identifies it. */
  readonly sessionSha256?: Buffer;
  /** Derives a key from the caller's token, which is not stored: what it seals, only this caller can read. */
  readonly sealingKey: () => Buffer;
}

/**
 * The role that a credential acts in: both the role of its principal and its scopes must allow it. A principal without a role
 * and without a team has the role that its scopes name.
 */
export function roleOf(
  scopes: readonly string[],
  principalRole: Role | null,
  team: Rights['team'],
): Rights['role'] {
  const mayBe = (role: Role) => principalRole === role || (principalRole === null && team === null);
  if (scopes.includes('operator') && mayBe('operator')) return 'operator';
  if (principalRole === 'auditor' || principalRole === 'finance') return principalRole;
  const readsAll = scopes.includes('admin:read') && (principalRole === 'operator' || mayBe('auditor'));
  return readsAll ? 'auditor' : null;
}

export function rightsOf({ rights, scopes }: Pick<Caller, 'rights' | 'scopes'>): Rights {
  return rights ?? { role: roleOf(scopes, null, null), team: null, ledTeamIds: [] };
}

export function isOperator(caller: Caller): boolean {
  return rightsOf(caller).role === 'operator';
}

/** Whether the caller reads the objects of all principals. */
export function readsAll(caller: Caller): boolean {
  const { role } = rightsOf(caller);
  return role === 'operator' || role === 'auditor';
}

/** Whether the caller reads the spend of all principals. */
export function readsAllSpend(caller: Caller): boolean {
  return readsAll(caller) || rightsOf(caller).role === 'finance';
}

/** The teams whose objects the caller sees: the one that it leads, and all below it. */
export function ledTeamsOf(caller: Caller): readonly string[] {
  return rightsOf(caller).ledTeamIds;
}

/** Whether the caller authenticated with this key. */
export function isCallingKey(caller: Caller, keyId: string): boolean {
  return caller.identity.kind === 'key' && caller.identity.keyId === keyId;
}

/**
 * Throws 403 for a secret that a rotation replaced. A key may be rotated because its secret is known to others. In its
 * grace period, such a secret must not replace the new one, nor change anything that outlives it.
 */
export function assertCurrentSecret({ identity }: Caller): void {
  if (identity.kind !== 'key' || identity.graceEndsAt === null) return;
  throw new AppError(
    'permission',
    'secret_in_grace',
    `This secret was replaced by a rotation. Until ${identity.graceEndsAt.toISOString()} it can read and infer, but change nothing. Use the key's new secret.`,
  );
}

/** Whose objects a caller sees: those of a principal, and those of teams. */
export interface Reach {
  readonly principalId: string;
  readonly teamIds: readonly string[];
}

/** What a list shows: undefined stands for all. */
export interface VisibleObjects {
  /** Only objects of this principal. */
  readonly principalId?: string | undefined;
  /** Of them, only those within reach. */
  readonly within?: Reach | undefined;
}

/**
 * What a list shows to a caller that asked for the objects of a principal, or of all. A lead that asks for the objects of another
 * team's principal sees an empty list, as if there were none.
 */
export function visibleObjects(
  caller: Caller,
  asked: string | undefined,
  things: string,
  seesAll: boolean = readsAll(caller),
): VisibleObjects {
  const { principalId } = caller;
  const teamIds = ledTeamsOf(caller);
  if (seesAll) return { principalId: asked };
  if (teamIds.length > 0) return { principalId: asked, within: { principalId, teamIds } };
  if (asked === undefined || asked === principalId) return { principalId };
  const message = `Without the scope operator, you can list only ${things} of your own principal.`;
  throw new AppError('permission', 'principal_not_allowed', message, { param: 'principal_id' });
}

/** The kind of the caller's credential, for messages. */
export function credentialName({ identity }: Caller): 'key' | 'token' {
  return identity.kind === 'key' ? 'key' : 'token';
}

/** Throws 403 if the caller lacks the scope, or if the scope is `operator` and its role does not allow it. */
export function assertScope(caller: Caller, scope: Scope): void {
  if (!caller.scopes.includes(scope)) {
    const message = `This ${credentialName(caller)} lacks the scope ${scope}.`;
    throw new AppError('permission', 'insufficient_scope', message, { details: { required_scope: scope } });
  }
  if (scope === 'operator' && !isOperator(caller)) throw insufficientRole('operator');
}

/** As `assertScope`, for an operation that only reads: `admin:read` reads what `operator` guards. */
export function assertScopeToRead(caller: Caller, scope: Scope): void {
  if (scope === 'operator' && caller.scopes.includes('admin:read') && !caller.scopes.includes('operator')) {
    if (readsAll(caller)) return;
    throw insufficientRole('auditor');
  }
  const readsAsAuditor = caller.scopes.includes('admin:read') && readsAll(caller);
  if (scope === 'operator' && readsAsAuditor) return;
  assertScope(caller, scope);
}

export function insufficientRole(role: Role): AppError {
  const message = `The role of your principal does not allow this. It needs the role ${role}, which an operator can give it.`;
  return new AppError('permission', 'insufficient_role', message, { details: { required_role: role } });
}
