import { expect, it } from 'vitest';
import { loadConfig } from '../../../config.ts';

const GIVEN = {
  DATABASE_URL: 'postgres://localhost/weighbridge',
  CONTROL_PLANE_TOKEN: 'a token that the apps share',
  OIDC_ISSUER: 'https://login.example.com/realms/one',
  OIDC_AUDIENCE: 'weighbridge, other',
  OIDC_SCOPE_MAP: '{"admins": ["operator", "keys:read"]}',
};
const load = (env: Record<string, string> = {}) => loadConfig({ ...GIVEN, ...env }).oidc;

it('without an issuer, OIDC is off', () => {
  const { DATABASE_URL, CONTROL_PLANE_TOKEN } = GIVEN;
  expect(loadConfig({ DATABASE_URL, CONTROL_PLANE_TOKEN }).oidc).toBeUndefined();
});

it('uses what is set, and defaults otherwise', () => {
  expect(load()).toEqual({
    issuer: GIVEN.OIDC_ISSUER,
    audiences: ['weighbridge', 'other'],
    principalClaim: 'sub',
    principalPrefix: '',
    scopesClaim: 'groups',
    scopesByValue: new Map([['admins', ['operator', 'keys:read']]]),
    rolesClaim: 'groups',
    roleByValue: new Map(),
    teamsClaim: 'groups',
    teamByValue: new Map(),
    clockToleranceSeconds: 30,
    signIn: undefined,
  });
});

it('maps values of claims to roles and teams', () => {
  const maps = load({
    OIDC_ROLE_MAP: '{"money": "finance"}',
    OIDC_TEAM_MAP: '{"s": "search", "sl": {"team": "search", "role": "lead"}, "x": {"team": "x"}}',
  });
  expect(maps?.roleByValue).toEqual(new Map([['money', 'finance']]));
  expect(maps?.teamByValue).toEqual(
    new Map([
      ['s', { name: 'search', role: 'member' }],
      ['sl', { name: 'search', role: 'lead' }],
      ['x', { name: 'x', role: 'member' }],
    ]),
  );
});

const SIGN_IN = {
  PUBLIC_URL: 'https://llm.example.com/',
  OIDC_AUDIENCE: '',
  OIDC_CLIENT_ID: 'console',
  OIDC_CLIENT_SECRET: 'a secret',
};

it('signs people in by a client, and then needs no audience', () => {
  expect(load(SIGN_IN)).toMatchObject({
    audiences: [],
    signIn: {
      clientId: 'console',
      clientSecret: 'a secret',
      scopes: 'openid profile email',
      name: 'login.example.com',
    },
  });
  const own = { OIDC_SIGN_IN_SCOPES: 'groups openid', OIDC_SIGN_IN_NAME: 'Example' };
  expect(load({ ...SIGN_IN, ...own })?.signIn).toMatchObject({ scopes: 'groups openid', name: 'Example' });
  expect(load({ ...SIGN_IN, PUBLIC_URL: 'http://localhost:8080' })?.signIn).toBeDefined();
});

it.each([
  ['PUBLIC_URL', ''],
  ['PUBLIC_URL', 'http://llm.example.com'],
  ['PUBLIC_URL', 'https://example.com/llm'],
  ['PUBLIC_URL', 'https://ada:secret@llm.example.com'],
  ['OIDC_CLIENT_ID', ''],
  ['OIDC_CLIENT_SECRET', ''],
  ['OIDC_SIGN_IN_SCOPES', 'profile email'],
  ['OIDC_SIGN_IN_SCOPES', 'openid2'],
])('the start fails if %s is %j and people sign in by the issuer', (name, value) => {
  expect(() => load({ ...SIGN_IN, [name]: value })).toThrow(name);
});

it.each([
  ['OIDC_ISSUER', 'http://login.example.com'],
  ['OIDC_ISSUER', 'https://user:password@login.example.com'],
  ['OIDC_ISSUER', 'https://login.example.com/?tenant=1'],
  ['OIDC_ISSUER', 'login.example.com'],
  ['OIDC_ISSUER', ''],
  ['OIDC_AUDIENCE', ''],
  ['OIDC_AUDIENCE', ' , '],
  ['OIDC_SCOPE_MAP', ''],
  ['OIDC_SCOPE_MAP', 'admins=operator'],
  ['OIDC_SCOPE_MAP', '{"admins": "operator"}'],
  ['OIDC_SCOPE_MAP', '{"admins": []}'],
  ['OIDC_SCOPE_MAP', '{"admins": ["everything"]}'],
  ['OIDC_SCOPE_MAP', '{"admins": ["inference"]}'],
  ['OIDC_SCOPE_MAP', '["admins"]'],
  ['OIDC_ROLE_MAP', '{"money": "lead"}'],
  ['OIDC_ROLE_MAP', '["operator"]'],
  ['OIDC_TEAM_MAP', '{"search": ["search"]}'],
  ['OIDC_TEAM_MAP', '{"search": {"team": "search", "role": "boss"}}'],
  ['OIDC_CLOCK_TOLERANCE_SECONDS', '3600'],
  ['OIDC_CLOCK_TOLERANCE_SECONDS', '-1'],
])('the start fails if %s is %j, with an error that names it', (name, value) => {
  expect(() => load({ [name]: value })).toThrow(name);
});
