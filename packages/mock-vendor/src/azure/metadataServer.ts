import type { IncomingMessage } from 'node:http';

/**
 * What a request to the metadata server of a machine asks for, or why it is refused
 * (https://learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token).
 */
export function metadataRequest(
  { method, headers }: IncomingMessage,
  query: URLSearchParams,
  identities: readonly string[],
  resources: readonly string[],
): { readonly fault: string } | { readonly resource: string; readonly clientId: string } {
  // A request that something else was made to send lacks the one or has the other.
  if (method !== 'GET' || headers.metadata !== 'true' || headers['x-forwarded-for']) {
    return { fault: 'Required metadata header not specified' };
  }
  if (query.get('api-version') !== '2018-02-01') return { fault: 'Invalid API version' };
  const known = ['api-version', 'resource', 'client_id'];
  if ([...query.keys()].some((name) => !known.includes(name))) return { fault: 'Invalid parameter' };
  const clientId = query.get('client_id') ?? identities[0];
  if (clientId === undefined || !identities.includes(clientId)) return { fault: 'Identity not found' };
  const resource = (query.get('resource') ?? '').replace(/\/$/, '');
  return resources.includes(resource) ? { resource, clientId } : { fault: 'invalid_resource' };
}

/** Numbers are texts there. */
export function metadataGrant(access_token: string, lifeMs: number, nowMs: number): object {
  const seconds = Math.ceil(lifeMs / 1_000);
  const now = Math.floor(nowMs / 1_000);
  return {
    access_token,
    expires_in: String(seconds),
    ext_expires_in: String(seconds),
    expires_on: String(now + seconds),
    not_before: String(now),
    token_type: 'Bearer',
  };
}
