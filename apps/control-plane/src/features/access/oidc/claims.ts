import { isPrincipalId } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Role } from '../../../shared/caller.ts';
import type { Scope } from '../../../shared/scopes.ts';
import type { TeamOfToken } from '../tokenTeam.service.ts';
import { type OidcSettings, ROLES_BY_REACH } from './settings.ts';

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
  const values = valuesOf(claims, scopesClaim);
  return [...new Set(values.flatMap((one) => scopesByValue.get(one as string) ?? []))];
}

type RoleSettings = Pick<OidcSettings, 'rolesClaim' | 'roleByValue'>;
type TeamSettings = Pick<OidcSettings, 'teamsClaim' | 'teamByValue'>;

/** The role that the settings map the values of the token's claim to; of several, the one that reaches the furthest. */
export function roleOfClaims(claims: Claims, { rolesClaim, roleByValue }: RoleSettings): Role | null {
  const found = new Set(valuesOf(claims, rolesClaim).map((one) => roleByValue.get(one as string)));
  return ROLES_BY_REACH.find((role) => found.has(role)) ?? null;
}

/**
 * The team that the settings map the values of the token's claim to. A principal is in one team, so of several the first of the
 * map counts; as lead, if one of the values says so of it.
 */
export function teamOfClaims(claims: Claims, { teamsClaim, teamByValue }: TeamSettings): TeamOfToken | null {
  const values = new Set(valuesOf(claims, teamsClaim));
  const found = [...teamByValue].filter(([value]) => values.has(value)).map(([, team]) => team);
  const [first] = found;
  if (!first) return null;
  const leads = found.some(({ name, role }) => name === first.name && role === 'lead');
  return { name: first.name, role: leads ? 'lead' : 'member' };
}

/** A list, or space-separated text like `scope` (RFC 6749, 3.3). */
function valuesOf(claims: Claims, name: string): readonly unknown[] {
  const value = claim(claims, name);
  return typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value : [];
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
