import { createHash } from 'node:crypto';
import { boundedFetch } from '@weighbridge/identities';
import { assertPublicHost, type Logger } from '@weighbridge/runtime';
import type { Configuration } from 'openid-client';
import { atMost } from '../../../shared/atMost.ts';
import { type Endpoint, endpoint, readDiscovery } from './issuer.ts';
import { createIssuerCache } from './issuerCache.ts';
import type { OidcSettings, SignInSettings } from './settings.ts';
import { refusedSignIn, tooManySignIns, unansweredSignIn } from './signInErrors.ts';
import type { TokenVerifier, VerifiedToken } from './tokenVerifier.ts';

/** What a sign-in that began has to meet again when the issuer answers. */
export interface PendingSignIn {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** Signs people in by the issuer's page: the authorization code flow with PKCE (RFC 7636). */
export interface CodeFlow {
  /** What people call the issuer. */
  readonly name: string;
  /** Another one for other settings. */
  readonly settingsSha256: string;
  /** The address of the issuer's page. Throws 503 if the issuer is unavailable. */
  begin(): Promise<{ readonly url: URL; readonly pending: PendingSignIn }>;
  /** Whom the issuer's answer names. `search`: the query with which it sent the person back. */
  finish(
    search: string,
    pending: PendingSignIn,
  ): Promise<{ readonly verified: VerifiedToken; readonly idToken: string }>;
  /** Where a person signs out at the issuer too; undefined if the issuer has no such page, or is unavailable. */
  endSessionUrl(idToken: string | undefined): Promise<URL | undefined>;
}

export interface CodeFlowDeps {
  readonly settings: OidcSettings;
  readonly signIn: SignInSettings;
  /** Without a trailing slash. */
  readonly publicUrl: string;
  /** Accepts only ID tokens of the client. */
  readonly verifier: TokenVerifier;
  readonly now: () => Date;
  readonly logger: Logger;
}

/** Where the issuer sends people back to, below the public URL. */
export const CALLBACK_PATH = '/console/sign-in/oidc/callback';

const TIMEOUT_MS = 5_000;
/** Strangers can begin sign-ins, and send made-up codes: no more are with the issuer at once. */
const MAX_EXCHANGES = 32;
/** A longer address may be refused by what it passes. */
const MAX_HINT = 4_000;

/** The parts of a discovery document that count here. */
interface Provider {
  readonly metadata: {
    readonly issuer: string;
    readonly authorization_endpoint: string;
    readonly token_endpoint: string;
    readonly end_session_endpoint?: string;
    readonly id_token_signing_alg_values_supported?: string[];
    readonly authorization_response_iss_parameter_supported?: boolean;
  };
  readonly tokenEndpoint: Endpoint;
  readonly takesSecretInBody: boolean;
}

export function createCodeFlow(deps: CodeFlowDeps): CodeFlow {
  const { settings, signIn, publicUrl, verifier } = deps;
  const redirectUri = `${publicUrl}${CALLBACK_PATH}`;
  const read = async () => await readProvider(settings.issuer);
  const provider = createIssuerCache({ ...deps, read, what: 'discovery document' });
  const limited = atMost(MAX_EXCHANGES, tooManySignIns);
  return {
    name: signIn.name,
    settingsSha256: digestOf(settings),
    async begin() {
      const oauth = await import('openid-client');
      const pending = {
        state: oauth.randomState(),
        nonce: oauth.randomNonce(),
        codeVerifier: oauth.randomPKCECodeVerifier(),
      };
      const url = oauth.buildAuthorizationUrl(await configuration(deps, await provider.get()), {
        redirect_uri: redirectUri,
        scope: signIn.scopes,
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await oauth.calculatePKCECodeChallenge(pending.codeVerifier),
        code_challenge_method: 'S256',
      });
      return { url, pending };
    },
    async finish(search, { state, nonce, codeVerifier }) {
      const oauth = await import('openid-client');
      const config = await configuration(deps, await provider.get());
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: codeVerifier };
      const grant = () => oauth.authorizationCodeGrant(config, new URL(`${redirectUri}${search}`), checks);
      const idToken = await limited(() => exchange(deps, grant));
      // The library trusts the connection to the issuer for it; the signature is checked as of any token.
      return { verified: await verifier.verify(idToken), idToken };
    },
    async endSessionUrl(idToken) {
      const found = await provider.get().catch(() => undefined);
      if (found?.metadata.end_session_endpoint === undefined) return undefined;
      const oauth = await import('openid-client');
      return oauth.buildEndSessionUrl(await configuration(deps, found), {
        post_logout_redirect_uri: `${publicUrl}/console/`,
        ...(idToken !== undefined && idToken.length <= MAX_HINT && { id_token_hint: idToken }),
      });
    },
  };
}

/** The ID token for a code. */
async function exchange(
  { logger }: CodeFlowDeps,
  grant: () => Promise<{ readonly id_token?: string }>,
): Promise<string> {
  try {
    const { id_token: idToken } = await grant();
    if (idToken !== undefined) return idToken;
  } catch (error) {
    const { name, code, error: answer, status } = error as Readonly<Record<string, unknown>>;
    // Not the error itself: it contains what the issuer sent, such as tokens.
    logger.warn({ reason: { name, code, answer, status } }, 'failed to sign in by OIDC');
    throw refusedSignIn(error);
  }
  throw unansweredSignIn();
}

async function readProvider(issuer: string): Promise<Provider> {
  const discovery = await readDiscovery(issuer);
  const { document } = discovery;
  const tokenEndpoint = endpoint(discovery, 'token_endpoint');
  if (!tokenEndpoint.allowPrivateAddress) assertPublicHost(tokenEndpoint.url.hostname);
  const isTexts = (value: unknown): value is string[] =>
    Array.isArray(value) && value.every((one) => typeof one === 'string');
  const algorithms = document.id_token_signing_alg_values_supported;
  const methods = document.token_endpoint_auth_methods_supported;
  return {
    metadata: {
      issuer,
      authorization_endpoint: endpoint(discovery, 'authorization_endpoint').url.href,
      token_endpoint: tokenEndpoint.url.href,
      ...(document.end_session_endpoint !== undefined && {
        end_session_endpoint: endpoint(discovery, 'end_session_endpoint').url.href,
      }),
      ...(isTexts(algorithms) && { id_token_signing_alg_values_supported: algorithms }),
      authorization_response_iss_parameter_supported:
        document.authorization_response_iss_parameter_supported === true,
    },
    tokenEndpoint,
    // Most take both. In the header, some want the secret encoded, as the standard does, and others refuse that.
    takesSecretInBody: isTexts(methods) && methods.includes('client_secret_post'),
  };
}

async function configuration(
  { settings, signIn, now }: CodeFlowDeps,
  { metadata, tokenEndpoint, takesSecretInBody }: Provider,
): Promise<Configuration> {
  // Loaded here, so that a process where no one signs in so does not pay for it.
  const oauth = await import('openid-client');
  const { clientId, clientSecret } = signIn;
  const client = {
    [oauth.clockTolerance]: settings.clockToleranceSeconds,
    [oauth.clockSkew]: Math.round((now().getTime() - Date.now()) / 1_000),
  };
  const authentication = takesSecretInBody
    ? oauth.ClientSecretPost(clientSecret)
    : oauth.ClientSecretBasic(clientSecret);
  const config = new oauth.Configuration(metadata, clientId, client, authentication);
  // Only an issuer of this machine has no TLS.
  oauth.allowInsecureRequests(config);
  const { allowPrivateAddress } = tokenEndpoint;
  config[oauth.customFetch] = (url, init) =>
    boundedFetch(url, init, { allowPrivateAddress, timeoutMs: TIMEOUT_MS });
  return config;
}

/** Of everything that decides who someone is and what they may do. */
function digestOf({ signIn, ...rules }: OidcSettings): string {
  const text = JSON.stringify([rules, signIn?.clientId], (_name, value) =>
    value instanceof Map ? [...value] : value,
  );
  return createHash('sha256').update(text).digest('base64url');
}
