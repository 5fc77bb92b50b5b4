import type { ConnectorAuth } from './connectorAuth.schemas.ts';
import type { UpstreamHosts } from './upstreamHosts.ts';

/** A cloud's own hosts. Anyone may have a machine below other names of it. */
const HOSTS = {
  google: /\.googleapis\.com$/,
  azure:
    /\.(openai\.azure|services\.ai\.azure|cognitiveservices\.azure|api\.cognitive\.microsoft)\.(com|us|cn)$/,
};
/** Where Microsoft issues tokens (https://learn.microsoft.com/entra/identity-platform/authentication-national-cloud). */
const AUTHORITIES =
  /^login\.(microsoftonline\.com|microsoftonline\.us|partner\.microsoftonline\.cn|chinacloudapi\.cn|windows\.net)$/;

interface OwnIdentityFault {
  readonly field: 'base_url' | 'auth.authority_host';
  readonly why: string;
}

/**
 * Why the proxies' own identity can't be used at an address; undefined if it can. Its tokens open all that the identity may do at
 * its cloud, and what it proves itself with opens more: whoever may change connectors must not have them sent elsewhere.
 */
export function ownIdentityFault(
  auth: ConnectorAuth,
  baseUrl: string,
  hosts: UpstreamHosts,
): OwnIdentityFault | undefined {
  const { kind, authority_host: authority } = auth;
  const isCloud = kind === 'google' || kind === 'azure';
  if (!isCloud || (auth.credentials ?? auth.client_secret) !== undefined) return undefined;
  const [cloud, given] = kind === 'google' ? ["Google's", 'credentials'] : ["Azure's", 'client_secret'];
  const fault = (field: OwnIdentityFault['field'], what: string, url: URL): OwnIdentityFault => ({
    field,
    why: `${what} of the proxies' own identity go to ${cloud} hosts only; give ${given}, or add ${url.host} to ALLOWED_UPSTREAM_HOSTS`,
  });
  const isAllowed = (url: URL, known: RegExp) =>
    hosts.allows(url) || (url.protocol === 'https:' && known.test(url.hostname));
  const url = new URL(baseUrl);
  if (!isAllowed(url, HOSTS[kind])) return fault('base_url', 'tokens', url);
  const issuer = authority === undefined ? undefined : new URL(authority);
  return issuer && !isAllowed(issuer, AUTHORITIES)
    ? fault('auth.authority_host', 'proofs', issuer)
    : undefined;
}
