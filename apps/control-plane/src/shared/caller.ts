import { AppError } from '@weighbridge/errors';
import type { Scope } from './scopes.ts';

/** By what somebody proved who it is: one of our keys, or a token of the deployment's OIDC issuer. */
export type Identity =
  | { readonly kind: 'key'; readonly keyId: string }
  | { readonly kind: 'oidc'; readonly issuer: string; readonly subject: string };

/** Who calls the operator API, by the credential that it showed. */
export interface Caller {
  readonly identity: Identity;
  readonly principalId: string;
  readonly scopes: readonly string[];
  /** When its credential ends; null: it doesn't. */
  readonly expiresAt: Date | null;
  /** Seals what only this caller may read again; derived from its token, which is kept nowhere. */
  readonly answerKey: () => Buffer;
}

export function isOperator(caller: Caller): boolean {
  return caller.scopes.includes('operator');
}

/** Whether it is this very key that calls. */
export function isCallingKey(caller: Caller, keyId: string): boolean {
  return caller.identity.kind === 'key' && caller.identity.keyId === keyId;
}

/** What the caller showed, as messages name it. */
export function credentialName({ identity }: Caller): 'key' | 'token' {
  return identity.kind === 'key' ? 'key' : 'token';
}

export function assertScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.includes(scope)) return;
  const message = `This ${credentialName(caller)} lacks the scope ${scope}.`;
  throw new AppError('permission', 'insufficient_scope', message, { details: { required_scope: scope } });
}
