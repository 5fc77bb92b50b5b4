import { assertPublicHost } from '@weighbridge/runtime';
import { type AccessToken, bearerToken } from './accessToken.ts';
import { type BoundedFetchOptions, boundedFetch } from './boundedFetch.ts';
import { IdentityError } from './identityError.ts';
import { GOOGLE_TOKEN_URL, parseServiceAccount } from './serviceAccount.ts';
import { unreachedError } from './unreached.ts';

/** Who a connector is at Google Cloud. What is empty comes from the library's default chain, as `fetchGoogleToken` says. */
export interface GoogleIdentity {
  readonly project: string;
  /** The key of a service account, as the JSON that Google gives out. */
  readonly credentials: string;
}

export interface GoogleToken {
  readonly token: string;
  /** The project that requests are for. */
  readonly project: string;
  /** Whose it is, or where it was found: for operators. */
  readonly source: string;
}

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform';

/** Errors of Google's token endpoints (RFC 6749, section 5.2; RFC 8693) that another try can't mend. */
const REFUSALS = new Set([
  'access_denied',
  'invalid_client',
  'invalid_grant',
  'invalid_request',
  'invalid_scope',
  'invalid_target',
  'unauthorized_client',
]);

/**
 * Gets an access token for Google Cloud: by the key of a service account, else by the library's default chain: the file that
 * GOOGLE_APPLICATION_CREDENTIALS names, such as that of workload identity federation, gcloud's own, or the metadata server.
 * Rejects with an IdentityError.
 */
export async function fetchGoogleToken(
  identity: GoogleIdentity,
  options: BoundedFetchOptions,
): Promise<AccessToken<GoogleToken>> {
  try {
    const { token, expiresAtMs, project, source } = identity.credentials
      ? await byServiceAccount(identity, options)
      : await byDefault(identity.project);
    if (!project) throw noProject();
    const { value, lifeMs } = bearerToken(token ?? '', expiresAtMs - Date.now(), 'Google');
    return { value: { token: value, project, source }, lifeMs };
  } catch (error) {
    throw error instanceof IdentityError ? error : identityError(error, identity, options.timeoutMs);
  }
}

interface Issued {
  readonly token: string | null | undefined;
  readonly expiresAtMs: number;
  readonly project: string;
  readonly source: string;
}

async function byServiceAccount(identity: GoogleIdentity, options: BoundedFetchOptions): Promise<Issued> {
  const { email, key, keyId, project, tokenUri } = parseServiceAccount(identity.credentials);
  if (!options.allowPrivateAddress) assertPublicHost(new URL(tokenUri).hostname);
  // Loaded here, so that a process without such a connector does not pay for it.
  const { JWT } = await import('google-auth-library');
  const client = new JWT({
    email,
    key,
    ...(keyId && { keyId }),
    scopes: [SCOPE],
    // The audience is the endpoint that is asked.
    ...(tokenUri !== GOOGLE_TOKEN_URL && { additionalClaims: { aud: tokenUri } }),
    transporterOptions: {
      // The last token serves meanwhile: whoever asks decides when to ask again.
      retryConfig: { retry: 0, noResponseRetries: 0 },
      fetchImplementation: (_url, init) =>
        boundedFetch(
          tokenUri,
          { method: 'POST', headers: Object.fromEntries(new Headers(init?.headers)), body: init?.body },
          options,
        ),
    },
  });
  const { access_token: token, expiry_date } = await client.authorize();
  return {
    token,
    expiresAtMs: expiry_date ?? 0,
    project: identity.project || project,
    source: `service account ${email}`,
  };
}

async function byDefault(project: string): Promise<Issued> {
  const { BaseExternalAccountClient, Compute, gcpMetadata, GoogleAuth, JWT } = await import(
    'google-auth-library'
  );
  // It remembers for good that there is no metadata server, though that may only have been slow.
  gcpMetadata.resetIsAvailableCache();
  const auth = new GoogleAuth({ scopes: [SCOPE], ...(project && { projectId: project }) });
  const client = await auth.getClient();
  const { token } = await client.getAccessToken();
  const found = project || ((await auth.getProjectId().catch(() => '')) ?? '');
  const source =
    client instanceof JWT
      ? `service account ${client.email}`
      : client instanceof BaseExternalAccountClient
        ? 'workload identity federation'
        : client instanceof Compute
          ? 'the metadata server'
          : 'a login';
  return { token, expiresAtMs: client.credentials.expiry_date ?? 0, project: found, source };
}

function noProject(): IdentityError {
  return new IdentityError(
    'No project of Google Cloud was found. Set project in the auth of the connector.',
    {
      isRefused: true,
    },
  );
}

/** Only codes of the failure are shown: its text may repeat what was sent. */
function identityError(error: unknown, { credentials }: GoogleIdentity, timeoutMs: number): IdentityError {
  const { response } = error as {
    readonly response?: { readonly status?: unknown; readonly data?: { readonly error?: unknown } };
  };
  const code = response?.data?.error;
  if (typeof response?.status === 'number') {
    const { status } = response;
    const isRefused = (typeof code === 'string' && REFUSALS.has(code)) || status === 401 || status === 403;
    const shown =
      typeof code === 'string' && /^\w{1,60}$/.test(code) ? `"${code}" (status ${status})` : status;
    const hint = isRefused
      ? ' Check the credentials, whether their key was deleted or disabled, and the clock of the proxy.'
      : '';
    return new IdentityError(`Google answered with ${shown} to a request for a token.${hint}`, { isRefused });
  }
  const unreached = unreachedError(error, 'Google', timeoutMs);
  if (unreached) return unreached;
  return credentials
    ? new IdentityError(
        'The credentials for Google Cloud could not be used. Check that their key is whole.',
        {
          isRefused: true,
        },
      )
    : new IdentityError(
        "No credentials for Google Cloud were found. Give credentials, or an identity to the proxy's pod.",
      );
}
