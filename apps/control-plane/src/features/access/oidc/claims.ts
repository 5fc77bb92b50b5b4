import { isPrincipalId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Scope } from '../../../shared/scopes.ts';
import type { OidcSettings } from './settings.ts';

/** The claims of a verified token. */
export type Claims = Readonly<Record<string, unknown>>;

type PrincipalSettings = Pick<OidcSettings, 'principalClaim' | 'principalPrefix'>;
type ScopeSettings = Pick<OidcSettings, 'scopesClaim' | 'scopesByValue'>;

/** The principal of a token. Throws 403 if the claim holds no valid principal id. */
export function principalOfClaims(claims: Claims, settings: PrincipalSettings): string {
  const { principalClaim, principalPrefix } = settings;
  const value = claim(claims, principalClaim);
  const principalId = typeof value === 'string' ? `${principalPrefix}${value}` : '';
  if (value === '' || !isPrincipalId(principalId)) {
    const message = `The claim ${principalClaim} of this token is not a principal id: it must be 1 to 200 printable characters.`;
    throw new AppError('permission', 'principal_unknown', message);
  }
  // At most issuers, a user can enter any address, so it counts only once it is verified.
  if (principalClaim === 'email' && claims.email_verified !== true) {
    const message =
      'The e-mail address in this token is not verified (email_verified), so it cannot be used as a principal id.';
    throw new AppError('permission', 'principal_unknown', message);
  }
  return principalId;
}

/** The scopes that the settings map the values of the token's claim to. The token's own `scope` grants nothing. */
export function scopesOfClaims(claims: Claims, { scopesClaim, scopesByValue }: ScopeSettings): Scope[] {
  const value = claim(claims, scopesClaim);
  // A list, or space-separated text like `scope` (RFC 6749, 3.3).
  const values = typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value : [];
  return [...new Set(values.flatMap((one: unknown) => scopesByValue.get(one as string) ?? []))];
}

/** A claim by its path. A name with `://`, as some issuers use, is not split at its dots. */
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
