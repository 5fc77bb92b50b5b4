import { AppError } from '@weighbridge/errors';
import type { Scope } from './scopes.ts';

/** How a caller authenticated: by a key, or by a token of the deployment's OIDC issuer. */
export type Identity =
  | { readonly kind: 'key'; readonly keyId: string }
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
