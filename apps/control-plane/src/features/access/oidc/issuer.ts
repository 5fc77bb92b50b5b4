import { createLocalJWKSet, type JSONWebKeySet } from 'jose';
import { readJson } from './readJson.ts';
import { isLoopback } from './settings.ts';

/** For each of the two documents. */
const LIMITS = { timeoutMs: 3_000, maxBytes: 256 * 1_024 };
/** Issuers publish a handful. */
const MAX_KEYS = 100;

/** Finds the key that a token's header names; rejects if there is none. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** Reads the current signing keys of an issuer (https://openid.net/specs/openid-connect-discovery-1_0.html). */
export async function readIssuerKeys(issuer: string, limits = LIMITS): Promise<KeySet> {
  const url = new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  // The issuer is configured by the operator, so any address is allowed.
  const document = await readJson({ ...limits, url, allowPrivateAddress: true });
  const { issuer: named, jwks_uri: keysUrl } = (document ?? {}) as Record<string, unknown>;
  if (named !== issuer) throw new Error(`${url.href} names another issuer than ${issuer}`);
  if (typeof keysUrl !== 'string' || !URL.canParse(keysUrl)) throw new Error(`${url.href} has no jwks_uri`);
  return keySet(await readJson({ ...limits, ...target(new URL(keysUrl), url) }));
}

/** Keys at another origin than the issuer's must have a public address: a document must not lead into the own network. */
function target(url: URL, { origin }: URL): { url: URL; allowPrivateAddress: boolean } {
  const isIssuers = url.origin === origin;
  if (url.protocol === 'https:' || (isIssuers && isLoopback(url))) {
    return { url, allowPrivateAddress: isIssuers };
  }
  throw new Error(`the jwks_uri of ${origin} is not https`);
}

function keySet(document: unknown): KeySet {
  const { keys } = (document ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys)) throw new Error('the document at the jwks_uri is not a JWK set');
  if (keys.length > MAX_KEYS) throw new Error(`the issuer has more than ${MAX_KEYS} keys`);
  return createLocalJWKSet(document as JSONWebKeySet);
}
