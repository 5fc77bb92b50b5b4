import { isPrincipalId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Scope } from '../../../shared/scopes.ts';
import type { OidcSettings } from './settings.ts';

/** What a token says, once it is believed. */
export type Claims = Readonly<Record<string, unknown>>;

type PrincipalSettings = Pick<OidcSettings, 'principalClaim' | 'principalPrefix'>;
type ScopeSettings = Pick<OidcSettings, 'scopesClaim' | 'scopesByValue'>;

/** Whose token it is. 403 where the claim names nobody. */
export function principalOfClaims(claims: Claims, settings: PrincipalSettings): string {
  const { principalClaim, principalPrefix } = settings;
  const value = claim(claims, principalClaim);
  const principalId = typeof value === 'string' ? `${principalPrefix}${value}` : '';
  if (value === '' || !isPrincipalId(principalId)) {
    const message = `The claim ${principalClaim} of this token names no principal: it must be 1 to 200 printable characters.`;
    throw new AppError('permission', 'principal_unknown', message);
  }
  // At most issuers, people may type any address that they like until it is verified.
  if (principalClaim === 'email' && claims.email_verified !== true) {
    const message =
      'The e-mail address in this token is not verified (email_verified), so it names no principal.';
    throw new AppError('permission', 'principal_unknown', message);
  }
  return principalId;
}

/** What a token may do: what the settings give for the values of its claim, and nothing that the token says of itself. */
export function scopesOfClaims(claims: Claims, { scopesClaim, scopesByValue }: ScopeSettings): Scope[] {
  const value = claim(claims, scopesClaim);
  // As `scope` has it (RFC 6749, 3.3), or as a list.
  const values = typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value : [];
  return [...new Set(values.flatMap((one: unknown) => scopesByValue.get(one as string) ?? []))];
}

/** A claim by its name. One that is an address, as some issuers name theirs, is taken as it stands. */
function claim(claims: Claims, name: string): unknown {
  const path = name.includes('://') ? [name] : name.split('.');
  return path.reduce<unknown>(
    (node, step) =>
      typeof node === 'object' && node !== null && Object.hasOwn(node, step)
        ? (node as Claims)[step]
        : undefined,
    claims,
  );
}
