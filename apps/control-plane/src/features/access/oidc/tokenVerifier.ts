import { AppError } from '@weighbridge/errors';
import {
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import type { Role } from '../../../shared/caller.ts';
import type { Scope } from '../../../shared/scopes.ts';
import type { TeamOfToken } from '../tokenTeam.service.ts';
import { principalOfClaims, roleOfClaims, scopesOfClaims, teamOfClaims } from './claims.ts';
import type { OidcSettings } from './settings.ts';

/** Only asymmetric algorithms: the key that verifies a token must not be able to sign one. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** The last second that a Date can hold. */
const LAST_SECOND = 8.64e12;

/** What the claims of a token map to. */
export interface VerifiedToken {
  readonly issuer: string;
  readonly subject: string;
  readonly principalId: string;
  readonly scopes: readonly Scope[];
  /** Null: nothing. */
  readonly role: Role | null;
  readonly team: TeamOfToken | null;
  readonly expiresAt: Date;
}

export interface TokenVerifier {
  /** Rejects with 401 and the reason, 403 if the token has no principal id, 503 if the issuer is unavailable. */
  verify(token: string): Promise<VerifiedToken>;
}

export interface TokenVerifierDeps {
  readonly settings: OidcSettings;
  readonly issuerKeys: JWTVerifyGetKey;
  readonly now: () => Date;
}

/** Whether a credential has the form of a signed token (RFC 7515, 7.1). Keys never contain a dot. */
export function isTokenShaped(credential: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(credential);
}

export function createTokenVerifier({ settings, issuerKeys, now }: TokenVerifierDeps): TokenVerifier {
  return {
    async verify(token) {
      // Checked before the signature: tokens of other issuers must not cause requests to the issuer.
      assertOwnIssuer(token, settings);
      const { sub = '', exp = 0, ...rest } = await verifiedPayload(token, { settings, issuerKeys, now });
      const claims = { ...rest, sub, exp };
      return {
        issuer: settings.issuer,
        subject: sub,
        principalId: principalOfClaims(claims, settings),
        scopes: scopesOfClaims(claims, settings),
        role: roleOfClaims(claims, settings),
        team: teamOfClaims(claims, settings),
        expiresAt: new Date(Math.min(exp, LAST_SECOND) * 1_000),
      };
    },
  };
}

function assertOwnIssuer(token: string, { issuer }: OidcSettings): void {
  let header: { readonly alg?: string };
  let claims: JWTPayload;
  try {
    header = decodeProtectedHeader(token);
    claims = decodeJwt(token);
  } catch (cause) {
    throw invalidToken('it cannot be decoded', cause);
  }
  if (!ALGORITHMS.includes(header.alg ?? ''))
    throw invalidToken(`its alg is not one of ${ALGORITHMS.join(', ')}`);
  if (claims.iss !== issuer) throw invalidToken('it was made by another issuer (iss)');
}

async function verifiedPayload(
  token: string,
  { settings, issuerKeys, now }: TokenVerifierDeps,
): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, issuerKeys, {
      algorithms: ALGORITHMS,
      issuer: settings.issuer,
      audience: [...settings.audiences],
      clockTolerance: settings.clockToleranceSeconds,
      currentDate: now(),
      requiredClaims: ['sub', 'exp'],
    });
    return payload;
  } catch (error) {
    throw error instanceof AppError ? error : verificationError(error);
  }
}

function verificationError(error: unknown): AppError {
  if (error instanceof errors.JWTExpired) {
    const message = 'This token is expired. Get a new token from your issuer.';
    return new AppError('authentication', 'token_expired', message, { cause: error });
  }
  if (error instanceof errors.JWTClaimValidationFailed) return invalidToken(claimProblem(error), error);
  if (error instanceof errors.JWKSNoMatchingKey) {
    return invalidToken('the issuer does not have the key that it is signed with (kid)', error);
  }
  if (error instanceof errors.JWKSMultipleMatchingKeys) {
    return invalidToken("its header does not identify one of the issuer's keys (kid)", error);
  }
  return invalidToken("its signature is not the issuer's", error);
}

function claimProblem({ claim, reason }: errors.JWTClaimValidationFailed): string {
  if (reason === 'missing') return `it has no ${claim}`;
  if (claim === 'aud') return 'it is made for another service (aud)';
  if (claim === 'nbf') return 'it is not valid yet (nbf)';
  return `its ${claim} is not valid`;
}

function invalidToken(why: string, cause?: unknown): AppError {
  return new AppError('authentication', 'invalid_token', `This token was rejected: ${why}.`, { cause });
}
