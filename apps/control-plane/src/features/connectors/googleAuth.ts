import { GOOGLE_TOKEN_URL, IdentityError, parseServiceAccount } from '@weighbridge/identities';
import { baseUrlFault, type UpstreamHosts } from './upstreamHosts.ts';

/** With the domain of older ones, such as `example.com:models`. */
export const PROJECT = /^([a-z0-9.-]{1,40}:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$/;
export const LOCATION = /^(global|us|eu|[a-z]+-[a-z]+\d{1,2})$/;
/** A reference, the mark of a sealed secret, or JSON. */
export const CREDENTIALS = /^((env|file):[\x20-\x7e]+|sealed|\s*\{[\s\S]*\}\s*)$/;

/** Where Vertex AI is in a location (https://cloud.google.com/vertex-ai/generative-ai/docs/learn/locations). */
export function vertexUrl(location = 'global'): string {
  if (location === 'global') return 'https://aiplatform.googleapis.com/v1';
  return location === 'us' || location === 'eu'
    ? `https://aiplatform.${location}.rep.googleapis.com/v1`
    : `https://${location}-aiplatform.googleapis.com/v1`;
}

/** Why the key of a service account can't be used; undefined if it can. Nothing of it is repeated. */
export function serviceAccountFault(text: string, hosts: UpstreamHosts): string | undefined {
  try {
    const { tokenUri } = parseServiceAccount(text);
    if (tokenUri === GOOGLE_TOKEN_URL) return undefined;
    const fault = baseUrlFault(tokenUri, hosts);
    return fault && `token_uri of its credentials cannot be used: ${fault}`;
  } catch (error) {
    return error instanceof IdentityError
      ? error.message.replace(/\.$/, '')
      : 'its credentials are not valid';
  }
}

/** Whether the host that issues its tokens may have a private address. */
export function mayIssuePrivately(text: string, hosts: UpstreamHosts): boolean {
  return text !== '' && hosts.allows(new URL(parseServiceAccount(text).tokenUri));
}
