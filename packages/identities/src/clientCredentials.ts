import { assertPublicHost } from '@weighbridge/runtime';
import { type AccessToken, bearerToken } from './accessToken.ts';
import { type BoundedFetchOptions, boundedFetch } from './boundedFetch.ts';
import { IdentityError } from './identityError.ts';
import { chainOf, shown, unreachedError } from './unreached.ts';

/** A client of an OAuth 2.0 authorization server (RFC 6749, section 4.4). */
export interface ClientCredentials {
  readonly tokenUrl: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Empty: what the server gives to the client by default. */
  readonly scope: string;
  readonly audience: string;
  /** How the client proves who it is: in the `authorization` header, or in the body. */
  readonly clientAuthentication: 'basic' | 'post';
}

/** Of a token whose answer does not say how long it lives. */
const DEFAULT_LIFE_MS = 5 * 60_000;

/** Errors of RFC 6749, section 5.2, that another try can't mend. */
const REFUSALS = new Set([
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'unauthorized_client',
  'unsupported_grant_type',
]);

/** Asks for an access token. Rejects with an IdentityError. */
export async function fetchClientToken(
  client: ClientCredentials,
  options: BoundedFetchOptions,
): Promise<AccessToken> {
  try {
    if (!options.allowPrivateAddress) assertPublicHost(new URL(client.tokenUrl).hostname);
    return await request(client, options);
  } catch (error) {
    throw error instanceof IdentityError ? error : identityError(error, options.timeoutMs);
  }
}

async function request(client: ClientCredentials, options: BoundedFetchOptions): Promise<AccessToken> {
  // Loaded here, so that a process without such a connector does not pay for it.
  const oauth = await import('openid-client');
  const { tokenUrl, clientId, clientSecret, scope, audience, clientAuthentication } = client;
  const authentication =
    clientAuthentication === 'basic'
      ? oauth.ClientSecretBasic(clientSecret)
      : oauth.ClientSecretPost(clientSecret);
  const server = { issuer: new URL(tokenUrl).origin, token_endpoint: tokenUrl };
  const config = new oauth.Configuration(server, clientId, undefined, authentication);
  // Which addresses may be reached without TLS, the control plane decides.
  oauth.allowInsecureRequests(config);
  config[oauth.customFetch] = (url, init) => boundedFetch(url, init, options);
  const parameters = { ...(scope && { scope }), ...(audience && { audience }) };
  const { access_token, token_type, expires_in } = await oauth.clientCredentialsGrant(config, parameters);
  if (token_type.toLowerCase() !== 'bearer') {
    throw new IdentityError(
      `The token endpoint issued a token of the type ${shown(token_type)}, not a bearer token.`,
      {
        isRefused: true,
      },
    );
  }
  const lifeMs = expires_in === undefined ? DEFAULT_LIFE_MS : expires_in * 1_000;
  return bearerToken(access_token, lifeMs, 'The token endpoint');
}

const CHECK = 'Check client_id, client_secret, client_authentication, scope and audience.';

/** Only codes of the failure are shown: its text may repeat what was sent. */
function identityError(error: unknown, timeoutMs: number): IdentityError {
  const { status, error: code } = error as { readonly status?: unknown; readonly error?: unknown };
  if (typeof code === 'string') {
    const isRefused = REFUSALS.has(code);
    return new IdentityError(
      `The token endpoint answered with ${shown(code)} (status ${Number(status)}). ${CHECK}`,
      { isRefused },
    );
  }
  // The status of a challenge, or of a response that the library did not take.
  const failed = typeof status === 'number' ? status : statusOf(error);
  if (failed !== undefined) {
    const isRefused = failed === 400 || failed === 401 || failed === 403;
    const isRedirect = failed >= 300 && failed < 400;
    const hint = isRefused ? ` ${CHECK}` : isRedirect ? ' A redirect is not followed: check token_url.' : '';
    return new IdentityError(`The token endpoint answered with status ${failed}.${hint}`, { isRefused });
  }
  const unreached = unreachedError(error, 'The token endpoint', timeoutMs);
  if (unreached) return unreached;
  return new IdentityError('The token endpoint answered with something that is not a token response.');
}

function statusOf(error: unknown): number | undefined {
  for (const { cause } of chainOf(error)) {
    if (cause instanceof Response && cause.status !== 200) return cause.status;
  }
  return undefined;
}
