import { createLocalJWKSet, type JSONWebKeySet } from 'jose';
import { readJson } from './readJson.ts';
import { isLoopback } from './settings.ts';

/** For each of the two documents. */
const LIMITS = { timeoutMs: 3_000, maxBytes: 256 * 1_024 };
/** Issuers publish a handful. */
const MAX_KEYS = 100;

/** Finds the key that a token's header names; rejects if there is none. */
export type KeySet = ReturnType<typeof createLocalJWKSet>;

/** An issuer's discovery document (https://openid.net/specs/openid-connect-discovery-1_0.html). */
interface Discovery {
  readonly url: URL;
  readonly document: Readonly<Record<string, unknown>>;
}

/** An address in a discovery document, and whether it may be a private one. */
export interface Endpoint {
  readonly url: URL;
  readonly allowPrivateAddress: boolean;
}

/** Reads the current signing keys of an issuer. */
export async function readIssuerKeys(issuer: string, limits = LIMITS): Promise<KeySet> {
  const discovery = await readDiscovery(issuer, limits);
  return keySet(await readJson({ ...limits, ...endpoint(discovery, 'jwks_uri') }));
}

/** Reads the discovery document of an issuer. Rejects if it names another one. */
export async function readDiscovery(issuer: string, limits = LIMITS): Promise<Discovery> {
  const url = new URL(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  // The issuer is configured by the operator, so any address is allowed.
  const document = ((await readJson({ ...limits, url, allowPrivateAddress: true })) ??
    {}) as Discovery['document'];
  if (document.issuer !== issuer) throw new Error(`${url.href} names another issuer than ${issuer}`);
  return { url, document };
}

/**
 * An address that a discovery document names. At another origin than the issuer's it must be public: a document must not lead into
 * the own network.
 */
export function endpoint({ url: { origin, href }, document }: Discovery, name: string): Endpoint {
  const value = document[name];
  if (typeof value !== 'string' || !URL.canParse(value)) throw new Error(`${href} has no ${name}`);
  const url = new URL(value);
  const isIssuers = url.origin === origin;
  if (url.protocol === 'https:' || (isIssuers && isLoopback(url))) {
    return { url, allowPrivateAddress: isIssuers };
  }
  throw new Error(`the ${name} of ${origin} is not https`);
}

function keySet(document: unknown): KeySet {
  const { keys } = (document ?? {}) as { keys?: unknown };
  if (!Array.isArray(keys)) throw new Error('the document at the jwks_uri is not a JWK set');
  if (keys.length > MAX_KEYS) throw new Error(`the issuer has more than ${MAX_KEYS} keys`);
  return createLocalJWKSet(document as JSONWebKeySet);
}
