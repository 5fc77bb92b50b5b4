import { createLocalJWKSet, type JSONWebKeySet } from 'jose';
import { readJson } from './readJson.ts';
import { isLoopback } from './settings.ts';

/** Of each of the two documents. */
const LIMITS = { timeoutMs: 3_000, maxBytes: 256 * 1_024 };
/** Issuers have a handful. */
const MAX_KEYS = 100;

/** Picks the key that a token says it is signed with; rejects where there is none. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** Asks an issuer for the keys that it signs with now (https://openid.net/specs/openid-connect-discovery-1_0.html). */
export async function readIssuerKeys(issuer: string, limits = LIMITS): Promise<KeySet> {
  const url = new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  // The deployment chose the issuer, so it may be at any address.
  const document = await readJson({ ...limits, url, allowPrivateAddress: true });
  const { issuer: named, jwks_uri: keysUrl } = (document ?? {}) as Record<string, unknown>;
  if (named !== issuer) throw new Error(`${url.href} is not of the issuer ${issuer}`);
  if (typeof keysUrl !== 'string' || !URL.canParse(keysUrl)) throw new Error(`${url.href} has no jwks_uri`);
  return keySet(await readJson({ ...limits, ...target(new URL(keysUrl), url) }));
}

/** The keys may be elsewhere than the issuer, but then at a public address: a document is to lead us nowhere inside. */
function target(url: URL, { origin }: URL): { url: URL; allowPrivateAddress: boolean } {
  const isIssuers = url.origin === origin;
  if (url.protocol === 'https:' || (isIssuers && isLoopback(url))) {
    return { url, allowPrivateAddress: isIssuers };
  }
  throw new Error(`the jwks_uri of ${origin} is not https`);
}

function keySet(document: unknown): KeySet {
  const { keys } = (document ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys)) throw new Error('the document at the jwks_uri is no set of keys');
  if (keys.length > MAX_KEYS) throw new Error(`the issuer has more than ${MAX_KEYS} keys`);
  return createLocalJWKSet(document as JSONWebKeySet);
}
