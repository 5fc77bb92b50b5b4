import { AppError } from '@weighbridge/errors';
import type { Scope } from './scopes.ts';

/** Who calls the operator API, by the key that it showed. */
export interface Caller {
  readonly keyId: string;
  readonly principalId: string;
  readonly scopes: readonly string[];
  readonly expiresAt: Date | null;
  /** Seals what only this caller may read again; derived from its token, which is kept nowhere. */
  readonly answerKey: () => Buffer;
}

export function isOperator(caller: Caller): boolean {
  return caller.scopes.includes('operator');
}

export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.scopes.includes(scope)) return;
  throw new AppError('permission', 'insufficient_scope', `This key lacks the scope ${scope}.`, {
    details: { required_scope: scope },
  });
}
