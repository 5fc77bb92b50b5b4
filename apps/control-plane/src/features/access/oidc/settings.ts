import { SettingsError } from '@weighbridge/runtime';
import Type, { type Static } from 'typebox';
import { Check } from 'typebox/value';
import { DEFAULT_SCOPES, type Scope } from '../../../shared/scopes.ts';

const CLAIM = {
  minLength: 1,
  description: 'the name of a claim; dots lead into objects, as in realm_access.roles',
};

/** The settings of OIDC as the environment has them; all of it is off without OIDC_ISSUER. */
export const OidcEnvironment = {
  OIDC_ISSUER: Type.Optional(
    Type.String({ description: 'the address of the issuer, as its tokens have it in `iss`' }),
  ),
  OIDC_AUDIENCE: Type.Optional(
    Type.String({ description: 'what tokens for this service have in `aud`, several with commas' }),
  ),
  OIDC_PRINCIPAL_CLAIM: Type.String({ default: 'sub', ...CLAIM }),
  OIDC_PRINCIPAL_PREFIX: Type.String({ default: '', description: 'what principals of tokens begin with' }),
  OIDC_SCOPES_CLAIM: Type.String({ default: 'groups', ...CLAIM }),
  OIDC_SCOPE_MAP: Type.Optional(
    Type.String({
      description: 'JSON: which values of the claim give which scopes, as {"llm-admins": ["operator"]}',
    }),
  ),
  OIDC_CLOCK_TOLERANCE_SECONDS: Type.Integer({
    default: 30,
    minimum: 0,
    maximum: 120,
    description: 'by how many seconds the clocks of the issuer and of this service may differ, 0 to 120',
  }),
} as const;

/** What a token can give at most. `inference` is none of it: no token is taken there. */
const GRANTABLE = [...DEFAULT_SCOPES, 'operator'] as const satisfies readonly Scope[];
const ScopeMap = Type.Record(
  Type.String({ minLength: 1 }),
  Type.Array(Type.Union(GRANTABLE.map((scope) => Type.Literal(scope))), { minItems: 1 }),
);

/** Whose tokens are taken, and what they give. */
export interface OidcSettings {
  readonly issuer: string;
  readonly audiences: readonly string[];
  readonly principalClaim: string;
  readonly principalPrefix: string;
  readonly scopesClaim: string;
  /** Values of the scopes' claim, and what each gives. What is not named here gives nothing. */
  readonly scopesByValue: ReadonlyMap<string, readonly Scope[]>;
  readonly clockToleranceSeconds: number;
}

type Environment = Static<ReturnType<typeof Type.Object<typeof OidcEnvironment>>>;

/** Undefined where no issuer is set: then no token is taken. */
export function oidcSettings(env: Environment): OidcSettings | undefined {
  const issuer = env.OIDC_ISSUER;
  if (issuer === undefined) {
    for (const name of ['OIDC_AUDIENCE', 'OIDC_SCOPE_MAP'] as const) {
      if (env[name]) throw new SettingsError(`OIDC_ISSUER is missing: ${name} means nothing without it`);
    }
    return undefined;
  }
  requireIssuer(issuer);
  const audiences = (env.OIDC_AUDIENCE ?? '')
    .split(',')
    .map((audience) => audience.trim())
    .filter((audience) => audience !== '');
  if (audiences.length === 0) {
    throw new SettingsError(
      'OIDC_AUDIENCE is missing: without it, tokens that the issuer made for others would be taken',
    );
  }
  return {
    issuer,
    audiences,
    principalClaim: env.OIDC_PRINCIPAL_CLAIM,
    principalPrefix: env.OIDC_PRINCIPAL_PREFIX,
    scopesClaim: env.OIDC_SCOPES_CLAIM,
    scopesByValue: scopeMap(env.OIDC_SCOPE_MAP),
    clockToleranceSeconds: env.OIDC_CLOCK_TOLERANCE_SECONDS,
  };
}

function requireIssuer(text: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url && !/[?#\s]/.test(text) && !url.username && !url.password;
  const isPrivate = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url));
  if (isPlain && isPrivate) return;
  throw new SettingsError(
    'OIDC_ISSUER is not valid: it must be an https address (http only on this machine), without "?" and "#"',
  );
}

export function isLoopback({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

function scopeMap(text: string | undefined): ReadonlyMap<string, readonly Scope[]> {
  if (text === undefined) {
    throw new SettingsError('OIDC_SCOPE_MAP is missing: without it no token may do anything');
  }
  const map = parsed(text);
  if (Check(ScopeMap, map)) return new Map(Object.entries(map));
  throw new SettingsError(
    `OIDC_SCOPE_MAP is not valid: it must be a JSON object of lists, each with one or more of ${GRANTABLE.join(', ')}`,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
