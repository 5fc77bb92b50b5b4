import { type KeyObject, verify } from 'node:crypto';

export interface AssertionRules {
  readonly publicKey: KeyObject;
  /** Of the service account. */
  readonly email: string;
  /** The address of the token endpoint. */
  readonly audience: string;
  readonly scope: string;
  readonly nowMs: number;
  /** The key was deleted. */
  readonly isRevoked: boolean;
}

export interface AssertionFault {
  readonly status: number;
  readonly error: string;
  readonly error_description: string;
}

const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const MAX_LIFE_S = 3_600;
const MAX_SKEW_S = 300;

/**
 * Why Google's token endpoint refuses a request, as it words it; undefined if it is right
 * (https://developers.google.com/identity/protocols/oauth2/service-account#error-codes).
 */
export function assertionFault(body: string, rules: AssertionRules): AssertionFault | undefined {
  const given = new URLSearchParams(body);
  if (given.get('grant_type') !== GRANT) return fault('unsupported_grant_type', 'Invalid grant_type.');
  const parts = (given.get('assertion') ?? '').split('.');
  const [head = {}, claims = {}] = parts.slice(0, 2).map(decoded);
  if (parts.length !== 3) return fault('invalid_grant', 'Invalid JWT.');
  if (head.alg !== 'RS256' || rules.isRevoked || !isSigned(parts, rules.publicKey)) {
    return fault('invalid_grant', 'Invalid JWT Signature.');
  }
  if (claims.iss !== rules.email) return fault('invalid_grant', 'Invalid grant: account not found');
  if (claims.aud !== rules.audience) return fault('invalid_grant', 'Invalid JWT: Failed audience check.');
  const [iat, exp] = [Number(claims.iat), Number(claims.exp)];
  const nowS = rules.nowMs / 1_000;
  if (!(iat <= nowS + MAX_SKEW_S && exp > nowS - MAX_SKEW_S && exp - iat <= MAX_LIFE_S)) {
    return fault(
      'invalid_grant',
      'Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.',
    );
  }
  if (!String(claims.scope).split(' ').includes(rules.scope)) {
    return fault('invalid_scope', 'Invalid OAuth scope or ID token audience provided.');
  }
  return undefined;
}

function isSigned([head, claims, signature = '']: readonly string[], key: KeyObject): boolean {
  return verify('RSA-SHA256', Buffer.from(`${head}.${claims}`), key, Buffer.from(signature, 'base64url'));
}

function decoded(part: string): Readonly<Record<string, unknown>> {
  try {
    return JSON.parse(Buffer.from(part, 'base64url').toString('utf8')) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function fault(error: string, error_description: string): AssertionFault {
  return { status: 400, error, error_description };
}
