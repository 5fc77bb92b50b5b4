import { SettingsError } from '@weighbridge/runtime';
import Type, { type Static } from 'typebox';
import { Check } from 'typebox/value';
import type { Role } from '../../../shared/caller.ts';
import { DEFAULT_SCOPES, type Scope } from '../../../shared/scopes.ts';
import type { TeamOfToken } from '../tokenTeam.service.ts';

const CLAIM = {
  minLength: 1,
  description: 'the path of a claim, with dots for nested objects, such as realm_access.roles',
};

/** The OIDC settings in the environment. OIDC is off without OIDC_ISSUER. */
export const OidcEnvironment = {
  OIDC_ISSUER: Type.Optional(Type.String({ description: 'URL of the issuer, equal to `iss` in its tokens' })),
  OIDC_AUDIENCE: Type.Optional(Type.String({ description: 'accepted values of `aud`, comma-separated' })),
  OIDC_PRINCIPAL_CLAIM: Type.String({ default: 'sub', ...CLAIM }),
  OIDC_PRINCIPAL_PREFIX: Type.String({ default: '', description: 'prefix of the principal ids of tokens' }),
  OIDC_SCOPES_CLAIM: Type.String({ default: 'groups', ...CLAIM }),
  OIDC_SCOPE_MAP: Type.Optional(
    Type.String({
      description: 'JSON map from values of the claim to scopes, such as {"llm-admins": ["operator"]}',
    }),
  ),
  OIDC_ROLES_CLAIM: Type.String({ default: 'groups', ...CLAIM }),
  OIDC_ROLE_MAP: Type.Optional(
    Type.String({
      description: 'JSON map from values of the claim to a role, such as {"llm-finance": "finance"}',
    }),
  ),
  OIDC_TEAMS_CLAIM: Type.String({ default: 'groups', ...CLAIM }),
  OIDC_TEAM_MAP: Type.Optional(
    Type.String({
      description:
        'JSON map from values of the claim to a team, such as {"search-team": "search", "search-leads": {"team": "search", "role": "lead"}}',
    }),
  ),
  OIDC_CLOCK_TOLERANCE_SECONDS: Type.Integer({
    default: 30,
    minimum: 0,
    maximum: 120,
    description:
      'the largest difference between the clocks of the issuer and this service, in seconds, 0 to 120',
  }),
  OIDC_CLIENT_ID: Type.Optional(
    Type.String({ minLength: 1, description: 'the client that signs people in to the console' }),
  ),
  OIDC_CLIENT_SECRET: Type.Optional(Type.String({ minLength: 1, description: 'the secret of that client' })),
  OIDC_SIGN_IN_SCOPES: Type.String({
    default: 'openid profile email',
    pattern: '^(.* )?openid( .*)?$',
    description: 'the scopes of a sign-in, separated by spaces, with openid',
  }),
  OIDC_SIGN_IN_NAME: Type.Optional(
    Type.String({ minLength: 1, maxLength: 60, description: 'what people call the issuer, such as Okta' }),
  ),
} as const;

/** The scopes that a token can grant. Not `inference`: proxies accept only keys. */
const GRANTABLE = [...DEFAULT_SCOPES, 'admin:read', 'operator'] as const satisfies readonly Scope[];
const ScopeMap = Type.Record(
  Type.String({ minLength: 1 }),
  Type.Array(Type.Union(GRANTABLE.map((scope) => Type.Literal(scope))), { minItems: 1 }),
);

/** From the most to the least: of several roles that a token maps to, the first counts. */
const ROLES = ['operator', 'auditor', 'finance'] as const satisfies readonly Role[];
const RoleMap = Type.Record(
  Type.String({ minLength: 1 }),
  Type.Union(ROLES.map((role) => Type.Literal(role))),
);
const TeamMap = Type.Record(
  Type.String({ minLength: 1 }),
  Type.Union([
    Type.String({ minLength: 1 }),
    Type.Object(
      {
        team: Type.String({ minLength: 1 }),
        role: Type.Optional(Type.Union([Type.Literal('member'), Type.Literal('lead')])),
      },
      { additionalProperties: false },
    ),
  ]),
);

/** Which tokens are accepted, and what they grant. */
export interface OidcSettings {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly principalClaim: string;
  readonly principalPrefix: string;
  readonly scopesClaim: string;
  /** The scopes of each value of the scopes claim. Other values grant nothing. */
  readonly scopesByValue: ReadonlyMap<string, readonly Scope[]>;
  readonly rolesClaim: string;
  /** The role of each value of the roles claim. */
  readonly roleByValue: ReadonlyMap<string, Role>;
  readonly teamsClaim: string;
  /** The team of each value of the teams claim, by its name. */
  readonly teamByValue: ReadonlyMap<string, TeamOfToken>;
  readonly clockToleranceSeconds: number;
  /** Undefined: nobody signs in to the console by the issuer. */
  readonly signIn: SignInSettings | undefined;
}

/** The client by which people sign in to the console. */
export interface SignInSettings {
  readonly clientId: string;
  readonly clientSecret: string;
  /** Separated by spaces. */
  readonly scopes: string;
  /** What people call the issuer. */
  readonly name: string;
}

/** The roles from the most to the least. */
export const ROLES_BY_REACH: readonly Role[] = ROLES;

type Environment = Static<ReturnType<typeof Type.Object<typeof OidcEnvironment>>>;

const NEED_ISSUER = [
  ...['OIDC_AUDIENCE', 'OIDC_SCOPE_MAP', 'OIDC_ROLE_MAP', 'OIDC_TEAM_MAP'],
  ...['OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET', 'OIDC_SIGN_IN_NAME'],
] as (keyof Environment)[];

/**
 * The checked settings; undefined if no issuer is set: then no token is accepted. `publicUrl`: where people reach the service, to
 * which a sign-in leads back.
 */
export function oidcSettings(env: Environment, publicUrl: string | undefined): OidcSettings | undefined {
  const issuer = env.OIDC_ISSUER;
  if (issuer === undefined) {
    for (const name of NEED_ISSUER) {
      if (env[name]) throw new SettingsError(`OIDC_ISSUER is missing: ${name} has no effect without it`);
    }
    return undefined;
  }
  assertIssuerUrl(issuer);
  const audiences = (env.OIDC_AUDIENCE ?? '')
    .split(',')
    .map((audience) => audience.trim())
    .filter((audience) => audience !== '');
  const signIn = signInSettings(env, new URL(issuer), publicUrl);
  if (audiences.length === 0 && !signIn) {
    throw new SettingsError(
      'OIDC_AUDIENCE is missing: without it, tokens for other services would be accepted',
    );
  }
  return {
    issuer,
    audiences,
    principalClaim: env.OIDC_PRINCIPAL_CLAIM,
    principalPrefix: env.OIDC_PRINCIPAL_PREFIX,
    scopesClaim: env.OIDC_SCOPES_CLAIM,
    scopesByValue: scopeMap(env.OIDC_SCOPE_MAP),
    rolesClaim: env.OIDC_ROLES_CLAIM,
    roleByValue: roleMap(env.OIDC_ROLE_MAP),
    teamsClaim: env.OIDC_TEAMS_CLAIM,
    teamByValue: teamMap(env.OIDC_TEAM_MAP),
    clockToleranceSeconds: env.OIDC_CLOCK_TOLERANCE_SECONDS,
    signIn,
  };
}

function signInSettings(
  env: Environment,
  issuer: URL,
  publicUrl: string | undefined,
): SignInSettings | undefined {
  const { OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = env;
  if (clientId === undefined) {
    if (clientSecret === undefined) return undefined;
    throw new SettingsError('OIDC_CLIENT_ID is missing: OIDC_CLIENT_SECRET has no effect without it');
  }
  if (clientSecret === undefined) {
    throw new SettingsError('OIDC_CLIENT_SECRET is missing: the issuer knows the client by it');
  }
  assertPublicUrl(publicUrl);
  return {
    clientId,
    clientSecret,
    scopes: env.OIDC_SIGN_IN_SCOPES,
    name: env.OIDC_SIGN_IN_NAME ?? issuer.hostname,
  };
}

/** The issuer sends people back to this address, and the cookies of the console are at the root of it. */
function assertPublicUrl(text: string | undefined): void {
  const url = text !== undefined && URL.canParse(text) ? new URL(text) : undefined;
  const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url));
  if (isPrivate && url?.pathname === '/' && !url.username && !url.password) return;
  throw new SettingsError(
    'PUBLIC_URL must be an https URL (http only for a loopback host) without a path, since OIDC_CLIENT_ID is set: the issuer sends people back to it',
  );
}

function assertIssuerUrl(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url && !/[?#\s]/.test(text) && !url.username && !url.password;
  const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url));
  if (isPlain && isPrivate) return;
  throw new SettingsError(
    'OIDC_ISSUER is not valid: it must be an https URL (http only for a loopback host) without "?" and "#"',
  );
}

export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

function scopeMap(text: string | undefined): ReadonlyMap<string, readonly Scope[]> {
  if (text === undefined) {
    throw new SettingsError('OIDC_SCOPE_MAP is missing: without it, tokens have no scopes');
  }
  const map = parseJson(text);
  if (Check(ScopeMap, map)) return new Map(Object.entries(map));
  throw new SettingsError(
    `OIDC_SCOPE_MAP is not valid: it must be a JSON object whose values are lists with one or more of ${GRANTABLE.join(', ')}`,
  );
}

function roleMap(text: string | undefined): ReadonlyMap<string, Role> {
  if (text === undefined) return new Map();
  const map = parseJson(text);
  if (Check(RoleMap, map)) return new Map(Object.entries(map));
  throw new SettingsError(
    `OIDC_ROLE_MAP is not valid: it must be a JSON object whose values are one of ${ROLES.join(', ')}`,
  );
}

function teamMap(text: string | undefined): ReadonlyMap<string, TeamOfToken> {
  if (text === undefined) return new Map();
  const map = parseJson(text);
  if (!Check(TeamMap, map)) {
    throw new SettingsError(
      'OIDC_TEAM_MAP is not valid: it must be a JSON object whose values are names of teams, or objects such as {"team": "search", "role": "lead"}',
    );
  }
  return new Map(
    Object.entries(map).map(([value, team]) =>
      typeof team === 'string'
        ? [value, { name: team, role: 'member' }]
        : [value, { name: team.team, role: team.role ?? 'member' }],
    ),
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
