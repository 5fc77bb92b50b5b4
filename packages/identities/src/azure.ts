import { AsyncLocalStorage } from 'node:async_hooks';
import { readFile } from 'node:fs/promises';
import type { HttpClient, PipelineRequest, PipelineResponse } from '@azure/core-rest-pipeline';
import type { TokenCredential } from '@azure/identity';
import { assertPublicHost } from '@weighbridge/runtime';
import { type AccessToken, bearerToken } from './accessToken.ts';
import { boundedFetch } from './boundedFetch.ts';
import { IdentityError } from './identityError.ts';
import { shown, unreachedError } from './unreached.ts';

/** Who a connector is at Microsoft Entra ID. What is empty comes from the proxy's own environment, pod or machine. */
export interface AzureIdentity {
  readonly tenantId: string;
  /** Of an application, or of a user-assigned managed identity. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Empty: that of Azure OpenAI and of Foundry's resources. */
  readonly scope: string;
  /** Where tokens are issued, such as that of a national cloud. Empty: AZURE_AUTHORITY_HOST, else the public cloud's. */
  readonly authorityHost: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

interface AzureOptions {
  /** Whether the authority may have a private address, and no TLS. Metadata servers always may. */
  readonly allowPrivateAddress: boolean;
  /** Of one request. */
  readonly timeoutMs: number;
  /** The variables of Microsoft's libraries. The metadata server's address, the library reads from its process. */
  readonly env: Environment;
}

/** What an identity is proven by. */
export type AzureSource = 'client_secret' | 'workload_identity' | 'environment' | 'managed_identity';

const SCOPE = 'https://cognitiveservices.azure.com/.default';
const PUBLIC_AUTHORITY = 'https://login.microsoftonline.com';
/** Of one call to a metadata server, which may hang. */
const METADATA_TIMEOUT_MS = 2_000;

/** The first that is there, in the order of the SDK's default chain. Developers' tools are left out. */
export function azureSource(identity: AzureIdentity, env: Environment): AzureSource {
  if (identity.clientSecret) return 'client_secret';
  const isEnvironments = identity.clientId === '' || identity.clientId === env.AZURE_CLIENT_ID;
  const hasSecret = env.AZURE_CLIENT_SECRET || env.AZURE_CLIENT_CERTIFICATE_PATH;
  if (isEnvironments && env.AZURE_TENANT_ID && env.AZURE_CLIENT_ID && hasSecret) return 'environment';
  return env.AZURE_FEDERATED_TOKEN_FILE ? 'workload_identity' : 'managed_identity';
}

/** Gets an access token for a connector. Rejects with an IdentityError. */
export async function fetchAzureToken(identity: AzureIdentity, options: AzureOptions): Promise<AccessToken> {
  const { env } = options;
  const source = azureSource(identity, env);
  const exchange = new Exchange(identity, source, options);
  try {
    const credential = await credentialOf(identity, source, { env, exchange });
    const token = await CURRENT.run(exchange, () => credential.getToken(identity.scope || SCOPE));
    if (!token) throw new IdentityError(`${exchange.provider} issued no token.`);
    // Counted from when it was asked for, as its answer says: then a wrong clock changes nothing.
    return bearerToken(
      token.token,
      exchange.lifeMs ?? token.expiresOnTimestamp - Date.now(),
      exchange.provider,
    );
  } catch (error) {
    throw error instanceof IdentityError ? error : exchange.explain(error);
  }
}

interface CredentialDeps {
  readonly env: Environment;
  readonly exchange: Exchange;
}

async function credentialOf(
  { tenantId: givenTenant, clientId: givenClient, clientSecret }: AzureIdentity,
  source: AzureSource,
  { env, exchange }: CredentialDeps,
): Promise<TokenCredential> {
  // Loaded here, so that a process without such a connector does not pay for it.
  const azure = await import('@azure/identity');
  const tenantId = givenTenant || (env.AZURE_TENANT_ID ?? '');
  const clientId = givenClient || (env.AZURE_CLIENT_ID ?? '');
  const common = { httpClient: TRANSPORT, retryOptions: { maxRetries: 0 }, loggingOptions: {} };
  if (source === 'managed_identity') {
    const retryOptions = { maxRetries: 1, retryDelayInMs: 200 };
    return new azure.ManagedIdentityCredential({ ...common, retryOptions, ...(clientId && { clientId }) });
  }
  const authorityHost = exchange.libraryAuthority;
  // The deployment or an operator named it: nothing else has to vouch for it.
  const options = { ...common, authorityHost, disableInstanceDiscovery: true };
  if (source === 'environment') return new azure.EnvironmentCredential(options);
  if (tenantId === '') throw missing('tenant_id', 'AZURE_TENANT_ID');
  if (clientId === '') throw missing('client_id', 'AZURE_CLIENT_ID');
  if (source === 'client_secret') {
    return new azure.ClientSecretCredential(tenantId, clientId, clientSecret, options);
  }
  const assertion = await federatedToken(env.AZURE_FEDERATED_TOKEN_FILE ?? '');
  return new azure.ClientAssertionCredential(tenantId, clientId, async () => assertion, options);
}

/** Read each time: the kubelet replaces it. */
async function federatedToken(file: string): Promise<string> {
  const token = (await readFile(file, 'utf8').catch(() => '')).trim();
  if (token !== '') return token;
  throw new IdentityError(
    'The file of AZURE_FEDERATED_TOKEN_FILE is empty or could not be read. Check the projected token of the pod.',
    { isRefused: true },
  );
}

function missing(field: string, variable: string): IdentityError {
  return new IdentityError(`No identity for Azure: give ${field}, or set ${variable} for the proxy.`, {
    isRefused: true,
  });
}

/** The library keeps the connections of the first managed identity for all later ones: they are the same, whoever asks. */
const CURRENT = new AsyncLocalStorage<Exchange>();
const TRANSPORT: HttpClient = {
  async sendRequest(request) {
    const exchange = CURRENT.getStore();
    if (!exchange) throw new Error('a token is asked for within an exchange');
    return await exchange.sendRequest(request);
  },
};

/** What the library exchanges with the identity provider: by connections of our own, whose outcome is kept. */
class Exchange {
  readonly #source: AzureSource;
  readonly #options: AzureOptions;
  readonly #authority: URL;
  readonly #allowsPrivateAddress: boolean;
  /** The status of the last answer, and what an error said. */
  #status: number | undefined;
  #code: string | undefined;
  #failure: unknown;
  /** How long the token lives, by its answer. */
  lifeMs: number | undefined;

  constructor({ authorityHost }: AzureIdentity, source: AzureSource, options: AzureOptions) {
    this.#source = source;
    this.#options = options;
    const deployments = options.env.AZURE_AUTHORITY_HOST ?? '';
    const text = authorityHost || deployments || PUBLIC_AUTHORITY;
    // What the deployment named, it may have in its own network.
    this.#allowsPrivateAddress = options.allowPrivateAddress || (authorityHost === '' && deployments !== '');
    if (!URL.canParse(text)) {
      throw new IdentityError('AZURE_AUTHORITY_HOST is not a URL.', { isRefused: true });
    }
    this.#authority = new URL(text);
  }

  /** As a sentence begins with it. */
  get provider(): string {
    return this.#source === 'managed_identity' ? 'The managed identity endpoint' : 'Microsoft Entra ID';
  }

  /** The library takes TLS only: an authority without it is named so, and called as it is. */
  get libraryAuthority(): string {
    return `https://${this.#authority.host}${this.#authority.pathname.replace(/\/$/, '')}`;
  }

  async sendRequest(request: PipelineRequest): Promise<PipelineResponse> {
    const { createHttpHeaders } = await import('@azure/core-rest-pipeline');
    try {
      const answer = await this.#fetch(request);
      const text = await answer.text();
      this.#note(answer.status, text);
      // Its endpoints have to be those of the authority that the library knows.
      const { origin, host } = this.#authority;
      const bodyAsText = text.replaceAll(origin, `https://${host}`);
      const headers = createHttpHeaders(Object.fromEntries(answer.headers));
      return { request, status: answer.status, headers, bodyAsText };
    } catch (error) {
      this.#failure = error;
      throw error;
    }
  }

  #fetch({ url, method, headers, body }: PipelineRequest): Promise<Response> {
    const init = { method, headers: headers.toJSON(), body };
    if (this.#source === 'managed_identity') {
      // Where it is, the machine or the deployment says, and the library alone reaches it.
      return boundedFetch(url, init, { allowPrivateAddress: true, timeoutMs: METADATA_TIMEOUT_MS });
    }
    const target = new URL(url);
    const { timeoutMs } = this.#options;
    const allowPrivateAddress = this.#allowsPrivateAddress;
    if (!allowPrivateAddress) assertPublicHost(target.hostname);
    if (target.host === this.#authority.host) target.protocol = this.#authority.protocol;
    return boundedFetch(target.href, init, { allowPrivateAddress, timeoutMs });
  }

  #note(status: number, text: string): void {
    this.#status = status;
    this.#failure = undefined;
    const { access_token, expires_in, error, error_description } = fieldsOf(text);
    this.#code = typeof error === 'string' ? error : undefined;
    const [number] = /AADSTS\d{1,9}/.exec(String(error_description ?? '')) ?? [];
    if (this.#code !== undefined && number !== undefined) this.#code += `, ${number}`;
    const seconds = Number(expires_in);
    if (typeof access_token === 'string' && expires_in !== undefined && Number.isFinite(seconds)) {
      this.lifeMs = seconds * 1_000;
    }
  }

  /** Only codes are shown: the text of an error may repeat what was sent. */
  explain(error: unknown): IdentityError {
    const timeoutMs = this.#source === 'managed_identity' ? METADATA_TIMEOUT_MS : this.#options.timeoutMs;
    const unreached =
      this.#failure === undefined ? undefined : unreachedError(this.#failure, this.provider, timeoutMs);
    if (unreached) return unreached;
    if (this.#status === undefined || this.#status < 300) {
      return new IdentityError(`${this.provider} could not be asked for a token (${nameOf(error)}).`);
    }
    const isRefused = this.#status >= 400 && this.#status < 404;
    const code = this.#code === undefined ? '' : ` and ${shown(this.#code)}`;
    const check = isRefused ? ` ${CHECK[this.#source]}` : '';
    return new IdentityError(`${this.provider} answered with status ${this.#status}${code}.${check}`, {
      isRefused,
    });
  }
}

const CHECK: Readonly<Record<AzureSource, string>> = {
  client_secret: 'Check tenant_id, client_id, client_secret and scope.',
  environment: 'Check AZURE_TENANT_ID, AZURE_CLIENT_ID and the secret or certificate of the proxy.',
  workload_identity:
    'Check tenant_id, client_id, and the federated credential of the service account of the proxy.',
  managed_identity: "Check that the machine or pod has a managed identity, and the connector's client_id.",
};

function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function nameOf(error: unknown): string {
  const { errorCode, name } = error as { readonly errorCode?: unknown; readonly name?: unknown };
  const text = String(errorCode ?? name ?? '');
  return /^\w{1,60}$/.test(text) ? text : 'unknown error';
}
