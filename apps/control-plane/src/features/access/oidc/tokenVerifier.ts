import { AppError } from '@weighbridge/errors';
import {
  decodeJwt,
  decodeProtectedHeader,
  errors,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import type { Scope } from '../../../shared/scopes.ts';
import { principalOfClaims, scopesOfClaims } from './claims.ts';
import type { OidcSettings } from './settings.ts';

/** Only asymmetric ones: who can check a token must not be able to make one. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
];
/** The last moment that a Date can hold. */
const LAST_SECOND = 8.64e12;

/** A token that was checked. */
interface VerifiedToken {
  readonly issuer: string;
  readonly subject: string;
  readonly principalId: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt: Date;
}

export interface TokenVerifier {
  /** Rejects with 401 and what is wrong with the token, 403 where it names nobody, 503 where the issuer is away. */
  verify(token: string): Promise<VerifiedToken>;
}

export interface TokenVerifierDeps {
  readonly settings: OidcSettings;
  readonly issuerKeys: JWTVerifyGetKey;
  readonly now: () => Date;
}

/** Whether a credential has the form of a signed token (RFC 7515, 7.1); none of our keys has a dot. */
export function isTokenShaped(credential: string): boolean {
  return /^[\w-]+\.[\w-]+\.[\w-]*$/.test(credential);
}

export function createTokenVerifier({ settings, issuerKeys, now }: TokenVerifierDeps): TokenVerifier {
  return {
    async verify(token) {
      // What can be seen without a key is refused without one: nobody makes us call the issuer by tokens of others.
      refuseForeign(token, settings);
      const { sub = '', exp = 0, ...rest } = await verified(token, { settings, issuerKeys, now });
      const claims = { ...rest, sub, exp };
      return {
        issuer: settings.issuer,
        subject: sub,
        principalId: principalOfClaims(claims, settings),
        scopes: scopesOfClaims(claims, settings),
        expiresAt: new Date(Math.min(exp, LAST_SECOND) * 1_000),
      };
    },
  };
}

function refuseForeign(token: string, { issuer }: OidcSettings): void {
  let header: { readonly alg?: string };
  let claims: JWTPayload;
  try {
    header = decodeProtectedHeader(token);
    claims = decodeJwt(token);
  } catch (cause) {
    throw invalidToken('it can not be read', cause);
  }
  if (!ALGORITHMS.includes(header.alg ?? ''))
    throw invalidToken(`its alg is not one of ${ALGORITHMS.join(', ')}`);
  if (claims.iss !== issuer) throw invalidToken('another issuer made it (iss)');
}

async function verified(
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
    throw error instanceof AppError ? error : refusal(error);
  }
}

function refusal(error: unknown): AppError {
  if (error instanceof errors.JWTExpired) {
    const message = 'This token is expired. Get a new one from your issuer.';
    return new AppError('authentication', 'token_expired', message, { cause: error });
  }
  if (error instanceof errors.JWTClaimValidationFailed) return invalidToken(claimFault(error), error);
  if (error instanceof errors.JWKSNoMatchingKey) {
    return invalidToken('the issuer has no such key as it is signed with (kid)', error);
  }
  if (error instanceof errors.JWKSMultipleMatchingKeys) {
    return invalidToken("it does not say which of the issuer's keys it is signed with (kid)", error);
  }
  return invalidToken("its signature is not the issuer's", error);
}

function claimFault({ claim, reason }: errors.JWTClaimValidationFailed): string {
  if (reason === 'missing') return `it has no ${claim}`;
  if (claim === 'aud') return 'it is made for another service (aud)';
  if (claim === 'nbf') return 'it is not valid yet (nbf)';
  return `its ${claim} is not as it must be`;
}

function invalidToken(why: string, cause?: unknown): AppError {
  return new AppError('authentication', 'invalid_token', `This token is not taken: ${why}.`, { cause });
}
