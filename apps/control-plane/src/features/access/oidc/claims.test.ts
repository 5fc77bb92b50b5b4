import { describe, expect, it } from 'vitest';
import { principalOfClaims, scopesOfClaims } from './claims.ts';

describe('the principal of a token', () => {
  const of = (claims: Record<string, unknown>, principalClaim = 'sub', principalPrefix = '') =>
    principalOfClaims(claims, { principalClaim, principalPrefix });

  it('is the prefix and the value of the claim', () => {
    expect(of({ sub: 'ada' })).toBe('ada');
    expect(of({ sub: 'ada' }, 'sub', 'sso:')).toBe('sso:ada');
    expect(of({ profile: { name: 'ada' } }, 'profile.name')).toBe('ada');
    expect(of({ 'https://example.com/id': 'ada' }, 'https://example.com/id')).toBe('ada');
  });

  const unknown = expect.objectContaining({ kind: 'permission', code: 'principal_unknown' });

  it.each([[undefined], [''], [7], [true], [null], [['ada']], [{ sub: 'ada' }]])(
    'is unknown for %j',
    (sub) => {
      expect(() => of({ sub })).toThrow(unknown);
      expect(() => of({ sub }, 'sub', 'sso:')).toThrow(unknown);
    },
  );

  it.each(['.', '..', ' ada', 'a\nb', 'a'.repeat(201)])(
    'is unknown for %j, which is not a valid id',
    (sub) => {
      expect(() => of({ sub })).toThrow(unknown);
    },
  );

  it('is not an e-mail address that the issuer has not verified', () => {
    expect(of({ email: 'ada@example.com', email_verified: true }, 'email')).toBe('ada@example.com');
    for (const email_verified of [false, undefined, 'true', 1]) {
      expect(() => of({ email: 'ada@example.com', email_verified }, 'email')).toThrow(unknown);
    }
  });
});

describe('the scopes of a token', () => {
  const scopesByValue = new Map([
    ['admins', ['operator', 'keys:read'] as const],
    ['readers', ['keys:read', 'usage:read'] as const],
  ]);
  const of = (claims: Record<string, unknown>, scopesClaim = 'groups') =>
    scopesOfClaims(claims, { scopesClaim, scopesByValue });

  it('are those that its values map to, without duplicates', () => {
    expect(of({ groups: ['admins', 'readers', 'admins'] })).toEqual(['operator', 'keys:read', 'usage:read']);
    expect(of({ scope: 'openid readers' }, 'scope')).toEqual(['keys:read', 'usage:read']);
    expect(of({ realm_access: { roles: ['readers'] } }, 'realm_access.roles')).toEqual([
      'keys:read',
      'usage:read',
    ]);
    expect(of({ 'https://example.com/roles': ['admins'] }, 'https://example.com/roles')).toContain(
      'operator',
    );
  });

  it.each([
    [{}],
    [{ groups: [] }],
    [{ groups: ['strangers', 'Admins', 'admins ', ''] }],
    // Scope names in a token grant nothing, nor do names that every object has.
    [{ groups: ['operator', 'keys:read', 'constructor', '__proto__', 'toString'] }],
    [{ scope: 'operator admins', scopes: ['operator'], roles: ['admins'] }],
    [{ groups: { admins: true } }],
    [{ groups: [['admins'], { admins: 1 }, 1, null] }],
    [{ groups: 7 }],
    [{ groups: null }],
  ])('are none for %j', (claims) => {
    expect(of(claims)).toEqual([]);
  });

  it('are not read from inherited properties', () => {
    expect(of({ a: {} }, 'a.constructor.name')).toEqual([]);
    expect(of({}, '__proto__')).toEqual([]);
  });
});
