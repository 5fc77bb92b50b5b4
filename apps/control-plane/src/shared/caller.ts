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

/** The authenticated identity behind a request to the operator API. */
export interface Caller {
  readonly identity: Identity;
  readonly principalId: string;
  readonly scopes: readonly string[];
  /** When its credential expires; null: never. */
  readonly expiresAt: Date | null;
  /** Derives a key from the caller's token, which is not stored: what it seals, only this caller can read. */
  readonly sealingKey: () => Buffer;
}

export function isOperator(caller: Caller): boolean {
  return caller.scopes.includes('operator');
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

/** The principal whose resources a list shows: for an operator, the one in the query, if any; else the caller's principal. */
export function visiblePrincipal(
  caller: Caller,
  asked: string | undefined,
  things: string,
): string | undefined {
  if (isOperator(caller)) return asked;
  if (asked === undefined || asked === caller.principalId) return caller.principalId;
  const message = `Without the scope operator, you can list only ${things} of your own principal.`;
  throw new AppError('permission', 'principal_not_allowed', message, { param: 'principal_id' });
}

/** The kind of the caller's credential, for messages. */
export function credentialName({ identity }: Caller): 'key' | 'token' {
  return identity.kind === 'key' ? 'key' : 'token';
}

/** Throws 403 if the caller lacks the scope. */
export function assertScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.includes(scope)) return;
  const message = `This ${credentialName(caller)} lacks the scope ${scope}.`;
  throw new AppError('permission', 'insufficient_scope', message, { details: { required_scope: scope } });
}
